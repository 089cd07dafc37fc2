"""Histories that keep memory for a reason: no leak in any of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tests.generate.allocator import KIB, Tensor
from tests.generate.recording import Recording
from tests.generate.scene import Kept, Scene, Server

CACHE = ("serve", "SessionStore.remember", "cat")


def _serve(
    seed: int, body: Callable[[Recording, Server, int], None], *, requests: int = 40
) -> tuple[Recording, Server]:
    run = Recording(seed)
    server = Server(run)
    for number in range(requests):
        with run.request(
            f"r{number}", status=200, prompt_tokens=64 * run.random.randint(1, 8), output_tokens=8
        ) as request:
            server.work(around=lambda: run.token(request, 0))
            run.token(request, 1)
            body(run, server, number)
        run.sample()
    return run, server


def _pair(run: Recording, size: int) -> list[Tensor]:
    return [run.alloc(size, *CACHE), run.alloc(size, *CACHE)]


def _scene(run: Recording, server: Server, *benign: Kept, lost: float = 0.0) -> Scene:
    return Scene({"": run}, benign=[server.weights, server.workspace, *benign], lost=lost)


def _kept(name: str, held: deque[tuple[int, list[Tensor]]] | list[tuple[int, list[Tensor]]]) -> Kept:
    kept = Kept(name)
    for epoch, tensors in held:
        kept.tensors += tensors
        kept.epochs += [epoch] * len(tensors)
    return kept


def steady(seed: int) -> Scene:
    """Nothing kept but weights and the first request's workspace."""
    run, server = _serve(seed, lambda run, server, number: None)
    return _scene(run, server)


def _lru(seed: int, limit: int, *, requests: int = 40, varying: bool = False, lost: float = 0.0) -> Scene:
    held: deque[tuple[int, list[Tensor]]] = deque()

    def body(run: Recording, server: Server, number: int) -> None:
        size = 4 * KIB * run.random.randint(4, 40) if varying else 96 * KIB
        held.append((number, _pair(run, size)))
        if len(held) > limit:
            run.free(*held.popleft()[1], path=("serve", "evict"))

    run, server = _serve(seed, body, requests=requests)
    return _scene(run, server, _kept("session cache", held), lost=lost)


def bounded_lru(seed: int) -> Scene:
    """A cache of the last 1 to N/2 sessions, of one size or as long as their prompts."""
    return _lru(seed, 1 + seed * 7 % 20, varying=seed % 2 == 1)


def truncated_lru(seed: int) -> Scene:
    """The first 60 % of the history is overwritten; the cache's limit is anything from 1 to above the window."""
    return _lru(seed, 1 + seed * 5 % 24, requests=50, varying=seed % 2 == 1, lost=0.6)


def nearly_all_lost_lru(seed: int) -> Scene:
    """Only the last few requests are left of the history."""
    return _lru(seed, 1 + seed * 5 % 12, requests=50, varying=seed % 2 == 1, lost=0.97)


def random_eviction(seed: int) -> Scene:
    """A cache that is full at some time and then evicts at random: survivors are old and young."""
    held: list[tuple[int, list[Tensor]]] = []

    def body(run: Recording, server: Server, number: int) -> None:
        held.append((number, _pair(run, 96 * KIB)))
        if len(held) > 3 + seed % 14:
            run.free(*held.pop(run.random.randrange(len(held)))[1], path=("serve", "evict"))

    run, server = _serve(seed, body, requests=60)
    return _scene(run, server, _kept("session cache", held))


def ttl(seed: int) -> Scene:
    """Entries live for a number of requests that differs from entry to entry."""
    held: list[tuple[int, list[Tensor]]] = []
    dies: dict[int, int] = {}

    def body(run: Recording, server: Server, number: int) -> None:
        for entry in [e for e in held if dies[e[0]] <= number]:
            run.free(*entry[1], path=("serve", "expire"))
            held.remove(entry)
        if run.random.random() < 0.8:
            held.append((number, _pair(run, 96 * KIB)))
            dies[number] = number + run.random.randint(2, 4 + seed % 8)

    run, server = _serve(seed, body, requests=50)
    return _scene(run, server, _kept("session cache", held))


def warm_up(seed: int) -> Scene:
    """Tables that are built when first needed, in the first k requests."""
    tables, until = Kept("tables"), 3 + seed % 8

    def body(run: Recording, server: Server, number: int) -> None:
        if number < until:
            tables.add(run, run.alloc(256 * KIB + 8 * KIB * number, "serve", "rotary_table", "outer"))

    run, server = _serve(seed, body)
    return _scene(run, server, tables)


def sawtooth(seed: int) -> Scene:
    """Reference cycles: garbage grows until the collector runs every m requests."""
    garbage: list[tuple[int, list[Tensor]]] = []

    def body(run: Recording, server: Server, number: int) -> None:
        garbage.append((number, [run.alloc(300 * KIB, "serve", "trace", "clone")]))
        if number % (4 + seed % 6) == 2:
            for _, tensors in garbage:
                run.free(*tensors, path=("gc",))
            garbage.clear()

    run, server = _serve(seed, body)
    return _scene(run, server, _kept("garbage", garbage))


def filling_pool(seed: int) -> Scene:
    """A pool of buffers that fills with the number of requests at once, at the start, and is used again."""
    pool: list[tuple[int, list[Tensor]]] = []

    def body(run: Recording, server: Server, number: int) -> None:
        wanted = run.random.randint(1, 6 + seed % 6) if number < 12 else run.random.randint(1, 4)
        while len(pool) < wanted:
            pool.append((number, [run.alloc(2048 * KIB, "serve", "BufferPool.take", "empty")]))

    run, server = _serve(seed, body)
    return _scene(run, server, _kept("pool", pool))
