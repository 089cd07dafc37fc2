"""Frames of real call paths and what the rules say of them; words that look alike and are not."""

from __future__ import annotations

import jsonschema
import pytest

from pipeline.leaks.frame_rules import KINDS, FrameReader, checked_rules, frame_rules
from pipeline.leaks.paths import PathFrame

_LIB = "/opt/venv/lib/python3.12/site-packages"


def _kinds(function: str, file: str | None, reader: FrameReader | None = None) -> set[str]:
    frame = PathFrame(1, function, file, 7, None)
    return {kind for kind in KINDS if (reader or FrameReader()).has([frame], kind)}


@pytest.mark.parametrize(
    ("function", "file", "kinds"),
    [
        ("update", f"{_LIB}/transformers/cache_utils.py", {"kv_cache"}),
        ("DynamicLayer.lazy_initialization", f"{_LIB}/other.py", {"kv_cache"}),
        ("_allocate_kv_cache", f"{_LIB}/vllm/worker/cache_engine.py", {"kv_cache"}),
        ("_allocate_kv_cache_tensors", f"{_LIB}/vllm/v1/worker/gpu_model_runner.py", {"kv_cache"}),
        ("_create_buffers", f"{_LIB}/sglang/srt/mem_cache/memory_pool.py", {"kv_cache"}),
        ("allocate_pools", f"{_LIB}/tensorrt_llm/_torch/pyexecutor/resource_manager.py", {"kv_cache"}),
        ("tensorrt_llm::batch_manager::kv_cache_manager::WindowBlockManager::allocatePools(bool)", None, {"kv_cache"}),
        ("__call__", f"{_LIB}/vllm/compilation/cuda_graph.py", {"graph_capture"}),
        ("capture", f"{_LIB}/vllm/worker/model_runner.py", {"graph_capture"}),
        ("capture_one_batch_size", f"{_LIB}/sglang/srt/model_executor/cuda_graph_runner.py", {"graph_capture"}),
        ("_record", f"{_LIB}/torch/_inductor/cudagraph_trees.py", {"graph_capture"}),
        (
            "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)",
            None,
            {"backward"},
        ),
        ("_engine_run_backward", f"{_LIB}/torch/autograd/graph.py", {"backward"}),
        ("decorate_context", f"{_LIB}/torch/utils/_contextlib.py", {"no_grad"}),
        ("cross_entropy", f"{_LIB}/torch/nn/functional.py", {"loss"}),
        # alike, and none of them
        ("capture", "/srv/app/camera.py", set()),
        ("update", "/srv/app/metrics.py", set()),
        ("update", "/srv/app/my_cache_utils.py", set()),
        ("forward", f"{_LIB}/vllm/worker/model_runner.py", set()),
        ("decorate_context", "/srv/app/theme.py", set()),
        ("save_for_backward_pass_later", "/srv/app/model.py", set()),
        ("take(KVCacheManager&)", None, {"kv_cache"}),  # by its letters
        ("take(DynamicLayer&)", None, set()),  # what it is given says nothing
    ],
)
def test_what_a_frame_is(function: str, file: str | None, kinds: set[str]) -> None:
    assert _kinds(function, file) == kinds


def test_frameworks_are_named() -> None:
    frames = [PathFrame(1, "update", f"{_LIB}/transformers/cache_utils.py", 1, None)]
    assert FrameReader().frameworks(frames, "kv_cache") == {"transformers"}


def test_the_users_own_names_come_on_top() -> None:
    own = FrameReader(("SessionMemory",))
    assert _kinds("sessionmemory_grow", "/srv/app/a.py", own) == {"kv_cache"}
    assert _kinds("sessionmemory_grow", "/srv/app/a.py") == set()
    assert _kinds("update", "/x/cache_utils.py", own) == {"kv_cache"}


def test_every_kind_and_framework_of_the_method_has_rules() -> None:
    assert {rule.kind for rule in frame_rules()} == set(KINDS)
    caches = {rule.framework for rule in frame_rules() if rule.kind == "kv_cache"}
    assert caches >= {"transformers", "vllm V0", "vllm V1", "sglang", "tensorrt-llm"}


@pytest.mark.parametrize(
    "row",
    [
        {"kind": "kv_cache", "framework": "x"},
        {"kind": "cache", "framework": "xx", "parts": ["abc"]},
        {"kind": "loss", "framework": "xx", "parts": ["Loss"]},
        {"kind": "loss", "framework": "xx", "names": ["a.b"]},
        {"kind": "loss", "framework": "xx", "files": ["/abs/x.py"]},
        {"kind": "loss", "framework": "xx", "parts": ["loss"], "regex": "x"},
    ],
)
def test_a_rule_against_the_schema_is_refused(row: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        checked_rules([row])
