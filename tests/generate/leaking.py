"""Serving histories with a planted leak."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from tests.generate.allocator import KIB, MIB, Tensor
from tests.generate.recording import Recording
from tests.generate.scene import Kept, Scene, Server

CACHE = ("serve", "SessionStore.remember", "cat")
Body = Callable[[Recording, Server, dict[str, Any], int], None]


def _serve(
    seed: int, leak: Kept, body: Body, *, requests: int = 40, lost: float = 0.0, benign: tuple[Kept, ...] = ()
) -> Scene:
    run = Recording(seed)
    server = Server(run)
    for number in range(requests):
        facts = {"status": 200, "prompt_tokens": 64 * run.random.randint(1, 8), "output_tokens": 8}
        with run.request(f"r{number}", **facts) as request:
            server.work(around=lambda: run.token(request, 0))
            run.token(request, 1)
            body(run, server, request, number)
        run.sample()
    return Scene({"": run}, leaks=[leak], benign=[server.weights, server.workspace, *benign], lost=lost)


def growing(seed: int) -> Scene:
    """Every request keeps one tensor."""
    leak = Kept("list")

    def body(run: Recording, server: Server, request: dict[str, Any], number: int) -> None:
        leak.add(run, run.alloc(64 * KIB, "serve", "Stats.record", "detach"))

    return _serve(seed, leak, body)


def _on_cancelled(seed: int, *, requests: int, lost: float = 0.0) -> Scene:
    leak = Kept("cancelled", attribute="status=499")

    def body(run: Recording, server: Server, request: dict[str, Any], number: int) -> None:
        pairs = [run.alloc(48 * KIB, *CACHE) for _ in range(4)]
        if run.random.random() < 0.3:
            request["status"] = 499
            leak.add(run, *pairs)
        else:
            run.free(*pairs)

    return _serve(seed, leak, body, requests=requests, lost=lost)


def cancelled_only(seed: int) -> Scene:
    """Cancelled requests (a third, at random) keep their caches."""
    return _on_cancelled(seed, requests=36)


def varying_sizes(seed: int) -> Scene:
    """Each request keeps a cache as long as its prompt, which differs from request to request."""
    leak = Kept("caches")

    def body(run: Recording, server: Server, request: dict[str, Any], number: int) -> None:
        request["prompt_tokens"] = run.random.randint(17, 900)
        for _ in range(2):
            leak.add(run, run.alloc(request["prompt_tokens"] * 256, *CACHE))

    return _serve(seed, leak, body)


def rare_big(seed: int) -> Scene:
    """One request in ten keeps 40 MiB; nothing in the log tells which."""
    leak = Kept("exceptions")
    due = {10 * k + seed * 3 % 7 + k % 3 for k in range(8)}

    def body(run: Recording, server: Server, request: dict[str, Any], number: int) -> None:
        buffer = run.alloc(40 * MIB, "serve", "retry", "empty")
        if number in due:
            leak.add(run, buffer)
        else:
            run.free(buffer)

    return _serve(seed, leak, body, requests=80)


def slow_drip(seed: int) -> Scene:
    """4 KiB a request among gigabytes of churn."""
    leak = Kept("drip")

    def body(run: Recording, server: Server, request: dict[str, Any], number: int) -> None:
        run.free(*[run.alloc(run.random.randrange(8 * MIB, 60 * MIB), "serve", "forward", "mlp") for _ in range(6)])
        leak.add(run, run.alloc(4 * KIB, "serve", "Metrics.update", "mean"))

    return _serve(seed, leak, body, requests=30)


def cache_and_leak(seed: int) -> Scene:
    """A bounded cache and a leak of another size allocate on one call path."""
    leak, held, limit = Kept("leak"), deque[tuple[int, list[Tensor]]](), 2 + seed % 5

    def body(run: Recording, server: Server, request: dict[str, Any], number: int) -> None:
        held.append((number, [run.alloc(512 * KIB, *CACHE)]))
        if len(held) > limit:
            run.free(*held.popleft()[1])
        leak.add(run, run.alloc(20 * KIB, *CACHE))

    return _serve(seed, leak, body)


def cancelled_in_cache(seed: int) -> Scene:
    """A cache of the last sessions evicts all but the cancelled ones, which it forgets about: one path, one size."""
    leak, held, limit = Kept("cancelled", attribute="status=499"), deque[tuple[int, list[Tensor]]](), 2 + seed % 5

    def body(run: Recording, server: Server, request: dict[str, Any], number: int) -> None:
        pair = [run.alloc(96 * KIB, *CACHE), run.alloc(96 * KIB, *CACHE)]
        if run.random.random() < 0.3:
            request["status"] = 499
            leak.add(run, *pair)
            return
        held.append((number, pair))
        if len(held) > limit:
            run.free(*held.popleft()[1])

    return _serve(seed, leak, body)


def two_leaks(seed: int) -> Scene:
    """Every request keeps a small tensor, and cancelled ones keep their caches as well: two faults."""
    every = Kept("every")
    leak = Kept("cancelled", attribute="status=499")

    def body(run: Recording, server: Server, request: dict[str, Any], number: int) -> None:
        every.add(run, run.alloc(24 * KIB, "serve", "Stats.record", "detach"))
        pair = [run.alloc(256 * KIB, *CACHE) for _ in range(2)]
        if run.random.random() < 0.3:
            request["status"] = 499
            leak.add(run, *pair)
        else:
            run.free(*pair)

    scene = _serve(seed, leak, body)
    scene.leaks.append(every)
    return scene


def workspace_on_path(seed: int) -> Scene:
    """A one-off workspace lies on the call path that leaks."""
    leak, workspace = Kept("leak"), Kept("plan")

    def body(run: Recording, server: Server, request: dict[str, Any], number: int) -> None:
        if number == seed % 3:
            workspace.add(run, run.alloc(16 * MIB, "serve", "forward", "conv"))
        leak.add(run, run.alloc(64 * KIB, "serve", "forward", "conv"), run.alloc(64 * KIB, "serve", "forward", "conv"))

    return _serve(seed, leak, body, benign=(workspace,))


def late_start(seed: int) -> Scene:
    """The leak begins in mid-run, after a deployment or a change of traffic."""
    leak, start = Kept("leak"), 12 + seed % 10

    def body(run: Recording, server: Server, request: dict[str, Any], number: int) -> None:
        tensor = run.alloc(80 * KIB, "serve", "Tracer.keep", "clone")
        if number >= start:
            leak.add(run, tensor)
        else:
            run.free(tensor)

    return _serve(seed, leak, body)


def truncated_leak(seed: int) -> Scene:
    """Cancelled requests leak and the first 60 % of the history is overwritten."""
    return _on_cancelled(seed, requests=60, lost=0.6)


def nearly_all_lost_leak(seed: int) -> Scene:
    """Cancelled requests leak and only the last few requests are left of the history."""
    return _on_cancelled(seed, requests=60, lost=0.97)


def dump_in_request(seed: int) -> Scene:
    """The snapshot is taken while a request runs: what that one holds is no leak."""
    scene = growing(seed)
    [run] = scene.recordings.values()
    run.begin("unfinished", status=None)
    passing = Kept("in flight")
    for name in ("linear", "attention", "softmax"):
        passing.add(run, run.alloc(3 * MIB, "serve", "forward", name))
    passing.add(run, run.alloc(64 * KIB, "serve", "Stats.record", "detach"))
    scene.benign.append(passing)
    return scene
