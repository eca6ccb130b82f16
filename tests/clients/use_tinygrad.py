#!/usr/bin/env python3
"""What tinygrad.bats plays: use_tinygrad.py train|refused. A training script as there are many.

On a GPU that computes nothing all numbers are 0."""
import sys

from tinygrad import Tensor, nn


def train(batch=64, steps=4):
    Tensor.manual_seed(1)
    net = nn.Linear(784, 10)
    optimizer = nn.optim.SGD(nn.state.get_parameters(net), lr=0.01)
    for step in range(steps):
        pictures, labels = Tensor.rand(batch, 784), Tensor.randint(batch, high=10)
        optimizer.zero_grad()
        loss = net(pictures).sparse_categorical_crossentropy(labels).backward()
        optimizer.step()
        print("step", step, loss.item())


def refused():
    """A batch that does not fit, then one that does."""
    for batch in (1 << 20, 64):
        try:
            train(batch, 1)
        except (MemoryError, RuntimeError) as error:
            print(type(error).__name__, error)


globals()[sys.argv[1]]()
