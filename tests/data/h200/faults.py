"""Plants faults on a GPU and records them: python faults.py OUT graphs|streams|stalls (PyTorch 2.11, CUDA 13.0)."""

# ruff: noqa
import os, sys, json, time, torch
from torch import nn
from torch.profiler import profile, ProfilerActivity, record_function

out, mode = sys.argv[1], sys.argv[2]
os.makedirs(out, exist_ok=True)
dev = "cuda"
torch.manual_seed(0)
truth = {"mode": mode, "pid": os.getpid()}
log = open(out + "/requests.jsonl", "w")
torch.cuda.memory._record_memory_history(max_entries=300000, stacks="python")


class Net(nn.Module):
    def __init__(s, d=1024):
        super().__init__()
        s.f = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(s, x):
        return s.f(x)


net = Net().to(dev).eval()


class GraphRunner:
    """Captures one graph a shape and keeps all of them."""

    def __init__(s, net):
        s.net, s.graphs = net, {}

    def capture(s, n):
        x = torch.zeros(n, 1024, device=dev)
        g = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            s.net(x)
        torch.cuda.current_stream().wait_stream(side)
        with torch.no_grad(), torch.cuda.graph(g):
            y = s.net(x)
        s.graphs[n] = (g, x, y)

    def __call__(s, n):
        if n not in s.graphs:
            s.capture(n)
        g, x, y = s.graphs[n]
        g.replay()
        return y


def request(i, work, status=200, **extra):
    t0 = time.time_ns()
    with record_function(f"request:{i}"):
        work()
    t1 = time.time_ns()
    log.write(
        json.dumps({"request_id": f"r{i}", "arrival_ns": t0, "start_ns": t0, "end_ns": t1, "status": status, **extra})
        + "\n"
    )


def graphs():
    run = GraphRunner(net)
    sizes = [256 * (1 + i) for i in range(16)]
    for i, n in enumerate(sizes):
        request(i, lambda: (run(n), torch.cuda.synchronize()), prompt_tokens=n)
    for i in range(16, 20):
        request(
            i, lambda: (net(torch.zeros(300 + i, 1024, device=dev)), torch.cuda.synchronize()), prompt_tokens=300 + i
        )
    truth["graph_shapes"] = sizes
    truth["eager_requests"] = ["r16", "r17", "r18", "r19"]
    globals()["keep"] = run


def streams():
    side = torch.cuda.Stream()
    truth["delayed"] = []

    def one(i):
        x = torch.empty(8 << 20, device=dev)  # 32 MiB
        with torch.cuda.stream(side):
            torch.cuda._sleep(40_000_000)
            x.add_(1)
        x.record_stream(side)
        truth["delayed"].append([x.data_ptr(), x.untyped_storage().nbytes()])
        del x
        net(torch.zeros(256, 1024, device=dev))
        torch.cuda.current_stream().synchronize()

    for i in range(24):
        request(i, lambda: one(i))
    side.synchronize()
    torch.cuda.synchronize()


def stalls():
    host = torch.randn(4 << 20)
    pinned = torch.randn(4 << 20).pin_memory()
    truth.update(items=0, sleeps_ns=0, pageable_h2d=0, pinned_h2d=0, empty_cache=0)

    def one(i):
        x = torch.randn(2048, 1024, device=dev)
        for _ in range(20):
            x = net(x)
        if i % 2 == 0:
            float(x.sum().item())
            truth["items"] += 1
        if i % 3 == 0:
            a = time.perf_counter_ns()
            time.sleep(0.02)
            truth["sleeps_ns"] += time.perf_counter_ns() - a
        if i % 4 == 0:
            host.to(dev)
            truth["pageable_h2d"] += 1
        if i % 4 == 1:
            pinned.to(dev, non_blocking=True)
            truth["pinned_h2d"] += 1
        if i % 5 == 4:
            torch.cuda.empty_cache()
            truth["empty_cache"] += 1
        torch.cuda.synchronize()

    for i in range(30):
        request(i, lambda: one(i))


with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    record_shapes=True,
    profile_memory=True,
    with_stack=(mode == "graphs"),
) as p:
    {"graphs": graphs, "streams": streams, "stalls": stalls}[mode]()
p.export_chrome_trace(out + "/trace.json.gz")
ops = p.key_averages()
truth["gpu_us_by_kernel"] = {e.key[:200]: [e.count, e.device_time_total] for e in ops if e.device_type.name == "CUDA"}
torch.cuda.memory._dump_snapshot(out + "/snapshot.pickle")
json.dump(truth, open(out + "/truth.json", "w"))
log.close()
