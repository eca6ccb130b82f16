"""Under a limit of 2 GiB: total shows it, too much is refused cleanly, and work goes on; CUDA graphs too."""
import torch

said = ["total ok" if torch.cuda.mem_get_info()[1] <= 2 << 30 else "total is not limited"]
try:
    torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
    said.append("no refusal")
except torch.cuda.OutOfMemoryError:
    said.append("out of memory")
kept = []
try:
    while True:
        kept.append(torch.empty(128 << 20, dtype=torch.uint8, device="cuda"))
except torch.cuda.OutOfMemoryError:
    kept.clear()
    torch.cuda.empty_cache()
x = torch.randn(512, 512, device="cuda")
said.append("recovered" if torch.isfinite(x @ x).all().item() else "wrong result")
try:
    graph = torch.cuda.CUDAGraph()
    y = x @ x
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = x @ x
    graph.replay()
    torch.cuda.synchronize()
    said.append("graph ok" if torch.isfinite(y).all().item() else "graph wrong")
except RuntimeError as error:
    said.append(f"graph: {error}".splitlines()[0])
print(", ".join(said))
