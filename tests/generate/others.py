"""Histories other than one server's: workers, training, evaluation, ranks and devices, snapshots alone."""

from __future__ import annotations

from typing import Any

from tests.generate.allocator import KIB, MIB, Tensor
from tests.generate.recording import Recording
from tests.generate.scene import Kept, Scene, Server

CACHE = ("serve", "DynamicCache.update", "cat")


def _interleaved(seed: int, *, leaks: bool) -> Scene:
    """Three workers: up to three requests at once, each allocating a little in turn."""
    run, leak = Recording(seed), Kept("cancelled", attribute="status=499")
    server = Server(run)
    open_requests: list[tuple[dict[str, Any], list[Tensor], int]] = []
    number = 0
    while number < 45 or open_requests:
        if number < 45 and len(open_requests) < 3:
            open_requests.append((run.begin(f"r{number}", prompt_tokens=64, output_tokens=4), [], number))
            number += 1
        request, own, index = run.random.choice(open_requests)
        server.work()
        own.append(run.alloc(32 * KIB, *CACHE))
        if len(own) < 4:
            continue
        status = 499 if run.random.random() < 0.35 else 200
        if leaks and status == 499:
            leak.tensors += own
            leak.epochs += [index] * len(own)
        else:
            run.free(*own)
        run.end(request, status=status)
        open_requests.remove((request, own, index))
    return Scene({"": run}, leaks=[leak] if leaks else [], benign=[server.weights, server.workspace])


def interleaved_clean(seed: int) -> Scene:
    """Requests of three workers overlap; nothing leaks."""
    return _interleaved(seed, leaks=False)


def interleaved_leak(seed: int) -> Scene:
    """Requests of three workers overlap; cancelled ones keep their caches."""
    return _interleaved(seed, leaks=True)


def _train(run: Recording, leak: Kept | None, *, steps: int = 14, device: int = 0, state: Kept | None = None) -> Kept:
    """Training steps on their own: gradients come and go, optimizer state appears in the first step and stays."""
    state = state or Kept("optimizer state")
    for layer in range(5):
        state.add(run, run.alloc(4 * MIB, "build", f"Module.to:{layer + 1}", device=device))
    for step in range(steps):
        with run.annotation(f"step:{step}"):
            saved = [run.alloc(3 * MIB, "train", "forward", f"layer:{i + 1}", device=device) for i in range(5)]
            gradients = [run.alloc(4 * MIB, "train", "backward", f"layer:{i + 1}", device=device) for i in range(5)]
            run.free(*saved)
            if step == 0:
                for layer in range(5):
                    for moment in ("exp_avg", "exp_avg_sq"):
                        state.add(
                            run, run.alloc(4 * MIB, "train", "Adam.step", moment + f":{layer + 1}", device=device)
                        )
            if leak is not None:
                leak.add(run, run.alloc(512, "train", "compute_loss", "mean", device=device))
                leak.add(run, run.alloc(3 * MIB, "train", "compute_loss", "log_softmax", device=device))
            run.free(*gradients)
    return state


def training_clean(seed: int) -> Scene:
    """Optimizer state of the first step is no leak."""
    run = Recording(seed)
    return Scene({"": run}, benign=[_train(run, None, steps=10 + seed % 8)])


def training_leak(seed: int) -> Scene:
    """Each step's loss is stored."""
    run, leak = Recording(seed), Kept("losses")
    return Scene({"": run}, leaks=[leak], benign=[_train(run, leak, steps=10 + seed % 8)])


def one_rank_leaks(seed: int) -> Scene:
    """Two ranks train; one of them stores its losses."""
    ranks = {f"rank{number}": Recording(seed * 10 + number) for number in range(2)}
    leaking = f"rank{seed % 2}"
    leak = Kept("losses", folder=leaking)
    benign = []
    for name, run in ranks.items():
        state = _train(run, leak if name == leaking else None)
        state.folder = name
        benign.append(state)
    return Scene(dict(ranks), leaks=[leak], benign=benign)


def one_device_leaks(seed: int) -> Scene:
    """One process serves on two devices; only requests on one of them keep a tensor."""
    run, leak, leaking = Recording(seed, devices=2), Kept("leak"), seed % 2
    servers = [Server(run, churn=4, device=device) for device in range(2)]
    for number in range(36):
        with run.request(f"r{number}", status=200, prompt_tokens=32, output_tokens=4):
            for device, server in enumerate(servers):
                server.work()
                tensor = run.alloc(128 * KIB, "serve", "Stats.record", "clone", device=device)
                if device == leaking:
                    leak.add(run, tensor)
                else:
                    run.free(tensor)
    return Scene({"": run}, leaks=[leak], benign=[k for s in servers for k in (s.weights, s.workspace)])


def graph_kept(seed: int) -> Scene:
    """Evaluation keeps each loss with its graph: a forward pass's tensors on many call paths, caches among them."""
    run, leak = Recording(seed), Kept("graph")
    server = Server(run, churn=3)
    for number in range(10):
        with run.annotation(f"eval:{number}"):
            server.work()
            for layer in range(6):
                at = ("evaluate_batch", "forward", f"layer:{layer + 1}")
                for name in ("linear", "rms_norm", "silu", "softmax"):
                    leak.add(run, run.alloc(run.random.choice((256, 512)) * KIB, *at, name))
                leak.add(run, *(run.alloc(128 * KIB, *at, "DynamicCache.update", "cat") for _ in range(2)))
            leak.add(run, run.alloc(2 * MIB, "evaluate_batch", "cross_entropy_loss", "log_softmax"))
            leak.add(run, run.alloc(512, "evaluate_batch", "cross_entropy_loss", "mean"))
    return Scene({"": run}, leaks=[leak], benign=[server.weights, server.workspace])


def _unnamed(seed: int, *, leaks: bool, idle: bool) -> Scene:
    """A snapshot alone: no request log, no ranges; bursts with idle time between them, or none."""
    run, leak = Recording(seed), Kept("leak")
    server = Server(run)
    for _ in range(60):
        if idle:
            run.tick(200_000, 400_000)
        server.work()
        tensor = run.alloc(64 * KIB, "serve", "Stats.record", "clone")
        if leaks:
            leak.add(run, tensor)
        else:
            run.free(tensor)
    if idle:  # the last burst can't be told from one that still runs: it is not judged
        run.tick(200_000, 400_000)
        server.work()
    return Scene({"": run}, leaks=[leak] if leaks else [], benign=[server.weights, server.workspace])


def idle_windows_clean(seed: int) -> Scene:
    """Only a snapshot, bursts of work; nothing leaks."""
    return _unnamed(seed, leaks=False, idle=True)


def idle_windows_leak(seed: int) -> Scene:
    """Only a snapshot, bursts of work; each keeps a tensor."""
    return _unnamed(seed, leaks=True, idle=True)


def time_windows_clean(seed: int) -> Scene:
    """Only a snapshot of constant work; nothing leaks."""
    return _unnamed(seed, leaks=False, idle=False)


def time_windows_leak(seed: int) -> Scene:
    """Only a snapshot of constant work; it keeps tensors all the time."""
    return _unnamed(seed, leaks=True, idle=False)
