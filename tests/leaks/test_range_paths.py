"""Survivors judged by their range path: where call paths change from epoch to epoch, or hold both cache and leak."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from tests.generate.allocator import KIB, MIB
from tests.generate.judging import Verdicts, run_pipeline
from tests.generate.recording import Recording
from tests.generate.scene import Kept, Scene, Server

CALLBACKS = "step:# > collect outputs"


def _judge(scene: Scene, folder: Path) -> Verdicts:
    return run_pipeline(scene.write(folder / "capture"), folder / "out")


def _callbacks(seed: int, *, limit: int | None, steps: int = 24) -> Scene:
    """Each step keeps an output under a call path of its own, in one range; with a limit the oldest goes again."""
    run, leak = Recording(seed), Kept("outputs")
    server, held = Server(run), []
    for step in range(steps):
        with run.annotation(f"step:{step}"):
            server.work()
            with run.annotation("collect outputs"):
                held.append(run.alloc(run.random.randrange(KIB, MIB), "serve", f"callback_{step}", "clone"))
            if limit and len(held) > limit:
                run.free(held.pop(0))
    leak.tensors, leak.epochs = held, list(range(len(held)))
    return Scene({"": run}, [] if limit else [leak], [server.weights, server.workspace])


@pytest.mark.parametrize("seed", range(3))
def test_a_leak_on_ever_new_call_paths_is_found_by_its_range(seed: int, tmp_path: Path) -> None:
    scene = _callbacks(seed, limit=None)
    found = _judge(scene, tmp_path)
    [suspect] = found.growing
    assert found.evidence[suspect["suspect_id"]] == scene.leaks[0].addresses
    assert (suspect["range_path"], suspect["judged_by"]) == (CALLBACKS, "range_path")
    assert (suspect["epoch_kind"], suspect["surviving_epochs_count"]) == ("step", 24)
    assert suspect["verdict_reason"].startswith(f"24 call paths of the range {CALLBACKS} taken together")
    assert [frame.split()[0] for frame in suspect["leak_path"].splitlines()] == ["main", "serve"]
    told = [key for row in found.suspects for key in found.evidence.get(row["suspect_id"], ())]
    assert len(told) == len(set(told)), "no survivor is told twice"


@pytest.mark.parametrize("limit", [2, 5, 11])
def test_a_cache_on_ever_new_call_paths_is_none(limit: int, tmp_path: Path) -> None:
    assert _judge(_callbacks(limit, limit=limit), tmp_path).growing == []


def test_one_call_path_that_leaks_in_one_range_only(tmp_path: Path) -> None:
    """The same allocation serves a cache of three in one range and is forgotten in the other."""
    run, leak, cache = Recording(7), Kept("forgotten"), []
    server = Server(run)
    for step in range(30):
        with run.annotation(f"step:{step}"):
            server.work()
            with run.annotation("warm cache"):
                cache.append(run.alloc(64 * KIB, "serve", "helper", "empty"))
            if len(cache) > 3:
                run.free(cache.pop(0))
            if step % 2:
                with run.annotation("write log"):
                    leak.add(run, run.alloc(64 * KIB, "serve", "helper", "empty"))
    found = _judge(Scene({"": run}, [leak], [server.weights]), tmp_path)
    [suspect] = found.growing
    assert found.evidence[suspect["suspect_id"]] == leak.addresses
    assert suspect["range_path"] == "step:# > write log"


def test_without_call_stacks_the_range_path_names_the_leak(tmp_path: Path) -> None:
    """Requests called by hexadecimal ids are one range path, not one each."""
    run, leak = Recording(3), Kept("kept")
    server = Server(run)
    for number in range(20):
        with run.annotation(f"request:{UUID(int=run.random.getrandbits(128))}"):
            server.work()
            with run.annotation("decode"):
                leak.add(run, run.alloc(run.random.randrange(KIB, 64 * KIB), "serve", "decode"))
        assert number == len(leak.tensors) - 1
    for allocator in run.devices:
        for event in allocator.events:
            event.pop("frames", None)
        strip = allocator.dump
        allocator.dump = lambda strip=strip: [  # type: ignore[method-assign, misc]
            {**segment, "blocks": [{k: v for k, v in block.items() if k != "frames"} for block in segment["blocks"]]}
            for segment in strip()
        ]
    found = _judge(Scene({"": run}, [leak]), tmp_path)
    [suspect] = found.growing
    assert found.evidence[suspect["suspect_id"]] == leak.addresses
    assert (suspect["range_path"], suspect["judged_by"]) == ("request:# > decode", "range_path")
    assert suspect["call_path_id"] is None
    assert "request:# > decode" in suspect["leak_path"]
