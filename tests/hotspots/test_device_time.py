"""Device time by launching call path, kernel, range and kind of work, on small tables."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.kernel_shares import number_type, share_of
from tests.hotspots.support import FLAGS, Row, hotspots, of_kind, paths, reasons

COPY = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy"
    "_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#12}::operator()() const::"
    "{lambda(c10::BFloat16)#1}>("
)
CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
    "{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>, 4, "
    "at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >("
)
NAMES = [
    (
        "pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false>",
        "attention",
    ),
    (
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0",
        "attention",
    ),
    ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)", "attention"),
    ("void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>", "attention"),
    ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<float>", "attention"),
    ("void rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "rotary"),
    ("void vllm::rotary_embedding_kernel<c10::Half>", "rotary"),
    ("nvjet_sm90_tst_8x64_64x16_4x1_v_bz_TNN", "matmul"),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x128x8_stage3_warpsize1x4x1_execute_kernel__5x_cublas", "matmul"),
    ("void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_128x64_16x3_nn_align1>(T1::Params)", "matmul"),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT16x32x512_MI16x16x1", "matmul"),
    ("void gemv2T_kernel_val<int, int, __nv_bfloat16>", "matmul"),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
    (COPY, "layout_copy"),
    (
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*",
        "layout_copy",
    ),
    ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>", "layout_copy"),
    ("void fbgemm_gpu::permute_2D_data_kernel<true, int, int, float>", "layout_copy"),
    ("triton_poi_fused_clone_3", "layout_copy"),
    ("cupy_copy__float64_float64", "layout_copy"),
    (CAST, "cast"),
    (
        "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(",
        "cast",
    ),
    ("triton_poi_fused__to_copy_0", "cast"),
    ("cupy_copy__float32_float64", "cast"),
    ("triton_poi_fused__to_copy_add_mul_2", "other"),
    ("void scal_kernel<float, float, 1, true, 6, 5, 5, 3>(cublasTransposeParams<float>, float const*)", "other"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", "other"),
    ("triton__0d1d2d3d", "other"),
    ("void multi_tensor_apply_kernel<TensorListMetadata<2>, CopyFunctor<int, long, 2, 1, 1>>", "cast"),
    ("void multi_tensor_apply_kernel<TensorListMetadata<2>, CopyFunctor<float, float, 2, 1, 1>>", "other"),
    ("property_kernel", "other"),
]


@pytest.mark.parametrize(("name", "share"), NAMES, ids=lambda text: text[:40])
def test_names_of_real_kernels(name: str, share: str) -> None:
    assert share_of("kernel", name) == share


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("void f<c10::BFloat16, float>()", "half"),
        ("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjfLi4EEEEEvT1_", "float"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn", "float"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1>", "double"),
        ("nvjet_sm90_tst_64x64_64x13_2x4_h_bz_TNT", None),
        ("void k<long>(long)", None),
    ],
)
def test_the_width_of_numbers(name: str, kind: str | None) -> None:
    assert number_type(name) == kind


def test_frames_tell_what_plain_kernels_are_for() -> None:
    assert share_of("kernel", COPY, ("forward", "apply_rotary_pos_emb")) == "rotary"
    assert share_of("kernel", "void softmax<float>", ("aten::scaled_dot_product_attention",)) == "attention"
    assert share_of("kernel", "nvjet_x", ("nn.Module: LlamaAttention_5",)) == "matmul"
    assert share_of("memcpy", "Memcpy HtoD", ("apply_rotary_pos_emb",)) == "transfer"
    assert share_of("kernel", None) == "other"
    assert share_of("graph", "flash_fwd") == "other"


def _launches(*launches: tuple[str, int, int | None], **more: Any) -> dict[str, list[Row]]:
    """Operations (name, duration, call path) one after another, each launched by a call of its own."""
    ops, calls, now = [], [], 1000
    for number, (name, duration, path) in enumerate(launches):
        ops.append(
            {"op": "kernel", "name": name, "start_ns": now, "end_ns": now + duration, "correlation_id": number} | more
        )
        calls.append(
            {"api": "runtime", "name": "cudaLaunchKernel", "start_ns": now - 900, "end_ns": now - 890, "thread_id": 5}
            | {"correlation_id": number, "call_path_id": path}
            | more
        )
        now += duration + 10
    return {"gpu_ops": ops, "api_calls": calls}


def test_paths_kernels_and_shares_sum_to_the_device_time(tmp_path: Path) -> None:
    given = _launches(("flash_fwd", 50, 0), ("k1", 30, 1), ("k1", 20, None), (CAST, 10, 1)) | paths((1, 2), (1, 3))
    _, rows = hotspots(tmp_path, **given)
    for kind in ("gpu_path", "gpu_kernel", "gpu_share"):
        assert sum(row["self_amount"] for row in of_kind(rows, kind)) == 110
        assert sum(row["self_ratio"] for row in of_kind(rows, kind)) == pytest.approx(1)
    assert [(row["call_path_id"], row["self_amount"]) for row in of_kind(rows, "gpu_path")] == [
        (0, 50),
        (1, 40),
        (None, 20),
    ]
    assert {(row["name"], row["self_amount"], row["call_count"]) for row in of_kind(rows, "gpu_share")} == {
        ("attention", 50, 1),
        ("cast", 10, 1),
        ("other", 50, 2),
    }
    assert {row["name"]: row["total_amount"] for row in of_kind(rows, "gpu_function")} == {
        "f1": 90,
        "f2": 50,
        "f3": 40,
        None: 20,
    }
    assert "gpu_path" not in reasons(rows)


def test_without_call_paths_the_shares_say_what_they_rest_on(tmp_path: Path) -> None:
    _, rows = hotspots(tmp_path, **_launches(("k1", 30, None)))
    assert "no call paths" in reasons(rows)["gpu_path"]
    [other] = of_kind(rows, "gpu_share")
    assert "by names of operations alone" in other["detail"]


def test_the_call_of_another_process_launched_nothing_here(tmp_path: Path) -> None:
    given = _launches(("k1", 30, 0)) | paths((1,))
    given["api_calls"] = [row | {"process_id": 2} for row in given["api_calls"]]
    _, rows = hotspots(tmp_path, **given)
    assert [row["call_path_id"] for row in of_kind(rows, "gpu_path")] == [None]


def test_driver_and_runtime_record_of_one_launch_count_once(tmp_path: Path) -> None:
    given = _launches(("k1", 30, 0)) | paths((1,))
    given["api_calls"] += [row | {"api": "driver", "start_ns": 101, "end_ns": 102} for row in given["api_calls"]]
    _, rows = hotspots(tmp_path, **given)
    assert [(row["self_amount"], row["call_count"]) for row in of_kind(rows, "gpu_path")] == [(30, 1)]


def test_two_tools_that_saw_one_process_count_once_and_two_windows_twice(tmp_path: Path) -> None:
    one, other = _launches(("k1", 30, None), ("k2", 5, None)), _launches(("k1", 31, None), file_id=1)
    later = [row | {"file_id": 2, "start_ns": 9000, "end_ns": 9007} for row in one["gpu_ops"][:1]]
    _, rows = hotspots(tmp_path, gpu_ops=[*one["gpu_ops"], *other["gpu_ops"], *later], api_calls=one["api_calls"])
    assert sum(row["self_amount"] for row in of_kind(rows, "gpu_kernel")) == 30 + 5 + 7


def test_time_by_range_is_that_of_the_launching_thread(tmp_path: Path) -> None:
    given = _launches(("k1", 30, None), ("k2", 20, None))
    ranges = [
        {"name": "decode 7", "range_kind": "push_pop", "start_ns": 50, "end_ns": 115, "thread_id": 5},
        {"name": "other thread", "range_kind": "push_pop", "start_ns": 0, "end_ns": 9000, "thread_id": 6},
    ]
    _, rows = hotspots(tmp_path, ranges=ranges, **given)
    assert [(row["range_path"], row["self_amount"]) for row in of_kind(rows, "gpu_range")] == [
        ("decode #", 30),
        (None, 20),
    ]


def test_many_places_and_names_are_bounded_and_still_sum(tmp_path: Path) -> None:
    ops = [
        {"op": "kernel", "name": f"k{n}", "start_ns": 0, "end_ns": 10, "process_id": n % 40, "device_index": n % 3}
        for n in range(600)
    ]
    _, rows = hotspots(tmp_path, rows=3, gpu_ops=ops)
    kernels = of_kind(rows, "gpu_kernel")
    assert sum(row["self_amount"] for row in kernels) == 6000
    assert len(kernels) <= 17 * 4
    assert sum(row["self_amount"] for row in kernels if row["process_id"] is None) == 6000 - 16 * 50
    tensors = [
        FLAGS
        | {"allocation_id": n, "process_id": n % 40, "device_index": n % 3, "allocated_bytes": 512}
        | {"requested_bytes": 500}
        for n in range(600)
    ]
    live = [
        {"ts_ns": 1, "live_bytes": 1, "live_count": 1, "process_id": p, "device_index": d}
        for p in range(40)
        for d in range(3)
    ]
    launches = [
        {"source": "ncu", "launch_index": n, "name": f"k{n}", "metric": "gpu__time_duration.sum", "value": 10.0}
        | {"unit": "ns", "process_id": n}
        for n in range(40)
    ]
    _, rows = hotspots(tmp_path, rows=3, allocations=tensors, live_bytes=live, kernel_metrics=launches)
    assert sum(row["self_amount"] for row in of_kind(rows, "rounding")) == 600 * 12
    assert sum(row["self_amount"] for row in of_kind(rows, "profiled_kernel")) == 400
    assert len(rows) < 200


@pytest.mark.parametrize(
    "name", ["triton_x_fused_clone" * 200, "direct_copy_kernel" * 220, "cupy_copy__" * 360, "CopyFunctor<a, " * 260]
)
def test_hostile_names_take_no_time(name: str) -> None:
    """Names that repeat what patterns begin with: no pattern goes back over them again and again."""
    begun = time.process_time()
    share_of("kernel", name)
    number_type(name)
    assert time.process_time() - begun < 0.5
