"""A few steps of training with fixed seeds; prints the losses, which must not depend on cuward."""
import torch

torch.manual_seed(7)
torch.use_deterministic_algorithms(False)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data = torch.randn(1024, 256, device="cuda")
target = torch.randint(0, 10, (1024,), device="cuda")
for step in range(20):
    loss = torch.nn.functional.cross_entropy(model(data), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.5f}")
