"""Root causes of hand-made suspects: which rule wins, on what evidence, and what it says against itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from pipeline.leaks.attributes import Association
from pipeline.leaks.epochs import Epochs
from pipeline.leaks.histories import Group
from pipeline.leaks.merging import Judged, Suspect
from pipeline.leaks.paths import CallPathReader, PathFrame
from pipeline.leaks.root_causes import RootCause, root_causes
from pipeline.leaks.suspects import Rated
from pipeline.leaks.tensor_causes import Facts
from schemas.config import RootCauseSettings
from tests.leaks.groups import MODES, group

CANCELLED = Association("status=499", 0.001, 6.0, 4, 4, 0, 8)


class Paths:
    """Call paths of hand-made frames: `function` or `function@file`, root first."""

    def __init__(self, paths: Mapping[int, Sequence[str]]) -> None:
        self._paths = paths

    def frames(self, call_path_id: int) -> tuple[PathFrame, ...]:
        found = []
        for number, name in enumerate(self._paths.get(call_path_id, ())):
            function, _, file = name.partition("@")
            found.append(PathFrame(number, function, file or "app.py", 1, None))
        return tuple(found)


def _causes(
    groups: Sequence[Group],
    paths: Mapping[int, Sequence[str]],
    *,
    tokens: Mapping[int, int] | None = None,
    association: Association | None = None,
    has_segments: bool = True,
    facts: Facts | None = None,
) -> list[RootCause]:
    epochs = set().union(*(g.epochs for g in groups))
    suspect = Suspect([Judged(g, MODES["growing"], 0) for g in groups], MODES["growing"], epochs)
    rated = Rated(suspect, Epochs("request", 12, 10**9, {}), association, None)
    reader = cast(CallPathReader, Paths(paths))
    return root_causes(rated, reader, RootCauseSettings(), tokens or {}, has_segments=has_segments, facts=facts)


def _text(cause: RootCause) -> str:
    return " ".join(cause.evidence_for)


def test_cache_frames_and_pairs_are_a_kv_cache() -> None:
    leak = group(1, (2, 5, 8, 11), size=65536, count=12)
    [cause] = _causes([leak], {1: ["serve", "update@/lib/cache_utils.py", "cat"]}, association=CANCELLED)
    assert cause.name == "kv_cache"
    assert "equal pairs" in _text(cause)
    assert "status=499" in _text(cause)
    assert not cause.evidence_against
    assert cause.advice
    assert cause.next_measurement


def test_a_cache_of_an_unknown_framework_is_told_by_its_shape() -> None:
    rows = [
        row
        for epoch, n in ((0, 100), (1, 300), (2, 500))
        for row in group(1, (epoch,), size=n * 256, count=2).survivors
    ]
    leak = Group(group(1, ()).key, rows)
    [cause] = _causes([leak], {1: ["serve", "my_engine", "empty"]}, tokens={0: 100, 1: 300, 2: 500})
    assert cause.name == "kv_cache"
    assert "correlation 1.000" in _text(cause)
    assert any("0% of the bytes" in line for line in cause.evidence_against)


def test_odd_counts_speak_against_a_kv_cache() -> None:
    [cause] = _causes([group(1, (2, 5, 8), size=65536, count=3)], {1: ["serve", "DynamicCache.update"]})
    assert cause.name == "kv_cache"
    assert any("do not come in equal pairs" in line for line in cause.evidence_against)


def test_pairs_of_overwritten_requests_are_counted_together() -> None:
    paths = {1: ["serve", "DynamicCache.update"]}
    [even] = _causes([group(1, (None,), count=24)], paths)
    [odd] = _causes([group(1, (None,), count=23)], paths)
    assert ("equal pairs" in _text(even), "equal pairs" in _text(odd)) == (True, False)


def _graph(*, through_cache: bool) -> tuple[list[Group], dict[int, list[str]]]:
    names = ["linear", "rms_norm", "silu", "softmax", "cross_entropy_loss", "embedding", "rotary", "matmul"]
    paths = {i: ["main", "evaluate_batch", f"layer{i}", name] for i, name in enumerate(names)}
    groups = [group(i, range(10), size=65536 + i) for i in paths]
    if through_cache:
        paths[90] = ["main", "evaluate_batch", "DynamicCache.update", "cat"]
        groups.append(group(90, range(10), size=65536, count=2))
    return groups, paths


@pytest.mark.parametrize("through_cache", [False, True])
def test_a_whole_forward_pass_is_a_graph_even_with_caches_in_it(through_cache: bool) -> None:
    groups, paths = _graph(through_cache=through_cache)
    [cause] = _causes(groups, paths)
    assert cause.name == "autograd_graph"
    assert "lead through a loss" in _text(cause)
    assert ("cache-shaped" in _text(cause)) is through_cache


def test_a_backward_pass_speaks_against_a_kept_graph() -> None:
    groups, paths = _graph(through_cache=False)
    paths[3] = ["main", "evaluate_batch", "backward", "mul"]
    [cause] = _causes(groups, paths)
    assert any("backward" in line for line in cause.evidence_against)


def test_caches_alone_on_many_paths_are_no_graph() -> None:
    paths = {i: ["serve", "DynamicCache.update", f"leaf{i}"] for i in range(8)}
    [cause] = _causes([group(i, range(10), count=2) for i in paths], paths)
    assert cause.name == "kv_cache"


def test_driver_allocations_are_outside_the_allocator() -> None:
    leak = group(1, range(0, 16, 2), size=9 << 20, level="driver")
    [cause] = _causes([leak], {1: ["libfoo!acquire", "cuMemAlloc"]})
    assert cause.name == "outside_allocator"
    assert not cause.evidence_against
    [unsure] = _causes([leak], {1: ["libfoo!acquire"]}, has_segments=False)
    assert any("no memory snapshot" in line for line in unsure.evidence_against)
    assert unsure.confidence < cause.confidence


@pytest.mark.parametrize("kind", ["pinned", "pageable"])
def test_host_memory_is_not_the_devices(kind: str) -> None:
    [cause] = _causes([group(1, range(8), level="driver", kind=kind)], {1: ["load"]})
    assert cause.name == "host_memory"


def test_no_rule_is_said_to_be_none() -> None:
    [cause] = _causes([group(1, range(10), size=4096)], {1: ["serve", "Stats.record", "clone"]}, association=CANCELLED)
    assert cause.name == "unclassified"
    assert "status=499" in _text(cause)
    assert cause.next_measurement


def test_confidence_is_below_one() -> None:
    groups, paths = _graph(through_cache=True)
    assert all(0 < cause.confidence < 1 for cause in _causes(groups, paths))


def test_outputs_kept_from_a_pass_without_gradients_are_no_graph() -> None:
    groups, paths = _graph(through_cache=False)
    wrapper = "decorate_context@/opt/lib/torch/utils/_contextlib.py"
    below = {i: ["main", wrapper, *path[1:]] for i, path in paths.items()}
    [cause] = _causes(groups, below)
    assert cause.name == "unclassified"
    below[0] = paths[0]
    below[1] = paths[1]
    [mixed] = _causes(groups, below)
    assert mixed.name == "autograd_graph"
    assert any("no_grad or inference_mode decorator" in line for line in mixed.evidence_against)


def test_tensors_in_private_pools_are_a_graphs() -> None:
    leak = group(1, range(10), size=1 << 20)
    facts = Facts(private_bytes=10 << 20, pool_count=5)
    captured = {1: ["serve", "run@/opt/vllm/compilation/cuda_graph.py", "empty"]}
    [sure] = _causes([leak], captured, facts=facts)
    [unsure] = _causes([leak], {1: ["serve", "stage", "empty"]}, facts=facts)
    assert (sure.name, unsure.name) == ("graph_pool", "graph_pool")
    assert "5 private pools" in _text(sure)
    assert any("torch.cuda.MemPool" in line for line in unsure.evidence_against)
    assert sure.confidence > unsure.confidence
    [other] = _causes([leak], captured, facts=Facts(private_bytes=1 << 20, pool_count=5))
    assert other.name == "unclassified"


def test_requests_without_an_end_speak_against_a_leaked_cache() -> None:
    leak = group(1, (2, 5, 8, 11), size=65536, count=2)
    paths = {1: ["serve", "DynamicCache.update"]}
    [done] = _causes([leak], paths, facts=Facts(request_count=4, ended_count=4))
    [open_] = _causes([leak], paths, facts=Facts(request_count=4, ended_count=1))
    assert "all of 4 requests" in _text(done)
    assert any(line.startswith("3 of 4 requests") for line in open_.evidence_against)


def test_what_is_known_of_an_unnamed_holder_is_said() -> None:
    [known] = _causes([group(1, range(10), size=4096)], {1: ["serve", "Stats.record", "clone@/opt/torch/_tensor.py"]})
    assert "all are of one size, 4,096 bytes" in _text(known)
    assert "innermost frame of the program's own is Stats.record (app.py:1)" in _text(known)
    assert "Start at Stats.record" in known.advice
    [blind] = _causes([group(-1, range(10))], {})
    assert "no call path was recorded" in blind.evidence_against
    assert "Record call paths" in blind.next_measurement
