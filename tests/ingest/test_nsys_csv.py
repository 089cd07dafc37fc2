"""Traces of `nsys stats` as CSV: the columns of each report, any unit of time, and summaries refused."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from ingest.errors import BadInput
from ingest.nsys_csv import IMPORTER
from ingest.registry import importer_for
from tests.ingest.support import SHARED, check_importer, counts_of
from tests.ingest.text_damage import check_cuts, check_encodings, data_loss, read_text, rows_of

CORPUS = SHARED / "corpus" / "nsys_csv"
GPU = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (B),DymSMem (B),Bytes (B),"
    "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
    '15057495,1312,4706,64,1,1,128,1,1,16,0,0,,,,,Tesla T4 (0),1,,7,"void f<int, (bool)0>(float *)"\n'
    "17825656,1216,4971,,,,,,,,,,8,6.579,Device,Pageable,Tesla T4 (1),1,,7,[CUDA memcpy Device-to-Host]\n"
    "17825700,16,0,,,,,,,,,,4096,1,Unknown,Unknown,Tesla T4 (0),1,,7,[CUDA memcpy Unified Host-to-Device]\n"
    "17825800,16,5,,,,,,,,,,64,1,Device,,Tesla T4 (0),1,,7,[CUDA memset]\n"
)
API = (
    "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n"
    "14778264,3859,cudaMalloc,2,4696,9946,9947,20,python3\n"
    "14821655,17563,cuLaunchKernel,0,4698,9946,9947,20,python3\n"
)
NVTX = (
    "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,ParentId,"
    "RangeStack,NameTree\n"
    + "".join(f"{n}00,{n}90,90,0,90,step {n},7,8,0,0,{n},,:{n},step {n}\n" for n in range(1, 400))
)


def test_gpu_trace(tmp_path: Path) -> None:
    tables = read_text(GPU, tmp_path, IMPORTER)
    columns = ("op", "name", "start_ns", "end_ns", "device_index", "correlation_id", "size_bytes", "copy_kind", "grid")
    assert rows_of(tables, "gpu_ops", columns) == [
        ("kernel", "void f<int, (bool)0>(float *)", 15057495, 15058807, 0, 4706, None, None, "64,1,1"),
        ("memcpy", None, 17825656, 17826872, 1, 4971, 8, "dtoh", None),
        ("migration", None, 17825700, 17825716, 0, None, 4096, "htod", None),
        ("memset", None, 17825800, 17825816, 0, 5, 64, None, None),
    ]
    assert rows_of(tables, "gpu_ops", ("src_kind", "dst_kind", "stream_id"))[1] == ("device", "pageable", 7)
    rounded = read_text(GPU.replace("Bytes (B)", "Bytes (MB)"), tmp_path, IMPORTER)
    assert rounded["gpu_ops"]["size_bytes"].null_count() == 4, "0.066 MB is no number of bytes"
    assert counts_of(rounded) == {("rounded_sizes", "info"): 1}


def test_api_trace_in_any_unit(tmp_path: Path) -> None:
    columns = ("api", "name", "start_ns", "end_ns", "process_id", "thread_id", "correlation_id", "return_code")
    expected = [
        ("runtime", "cudaMalloc", 14778264, 14782123, 9946, 9947, 4696, 2),
        ("driver", "cuLaunchKernel", 14821655, 14839218, 9946, 9947, 4698, 0),
    ]
    assert rows_of(read_text(API, tmp_path, IMPORTER), "api_calls", columns) == expected
    micro = API.replace("(ns)", "(us)")
    for number in ("14778264", "3859", "14821655", "17563"):
        micro = micro.replace(number, f"{number[:-3]}.{number[-3:]}")
    tables = read_text(micro, tmp_path, IMPORTER)
    assert rows_of(tables, "api_calls", columns) == expected
    assert counts_of(tables) == {("rounded_times", "info"): 1}


def test_damage(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(NVTX)
    columns = ("range_kind", "name", "start_ns", "end_ns", "process_id", "thread_id")
    check_encodings(path, tmp_path, IMPORTER)
    check_cuts(path, tmp_path, IMPORTER, "ranges", columns)
    rest = "cudaFree,0,1,2,3,20,x\n"
    text = f"{API}noon,3,{rest}5,1e99999,{rest}7,1,cudaFree,0,99999999999999999999,2,3,20,x\n"
    tables = read_text(text, tmp_path, IMPORTER)
    assert tables["api_calls"].height >= 3
    assert data_loss(tables).total() == 3


def test_summaries_are_refused(tmp_path: Path) -> None:
    columns = "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
    text = f"{columns}\n99.5,2,2,1,1,1,1,0.0,cudaFree\n"
    with pytest.raises(BadInput, match="cuda_api_trace"):
        read_text(text, tmp_path, IMPORTER)
    assert not IMPORTER.sniff(b"start (ns),name,total\n", tmp_path)


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not beside the checkout")
def test_real_file(tmp_path: Path) -> None:
    [path] = CORPUS.rglob("*.csv")
    assert importer_for(path.read_bytes()[:65536], path) is IMPORTER
    tables = check_importer(path, tmp_path, IMPORTER)
    with io.StringIO(path.read_text()) as stream:
        expected = [
            (r["Name"], int(r["Start (ns)"]), int(r["End (ns)"]), int(r["TID"])) for r in csv.DictReader(stream)
        ]
    assert rows_of(tables, "ranges", ("name", "start_ns", "end_ns", "thread_id")) == expected
    assert counts_of(tables) == {}
