"""`leakpath collect cupti` on programs that emit known records through a stand-in for cupti-python."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import collect, read_capture

CUPTI = ("cupti", "-o", "c.arrow", "--", "PYTHON", "app.py")
RECORDS = """
    import cupti.cupti as c
    own = {"process_id": 7, "thread_id": 8, "return_value": 2}
    for i in range(3):
        c.emit("RUNTIME", cbid=20, start=10 + i, end=20 + i, correlation_id=i, **own)
    c.emit("RUNTIME", cbid=18, correlation_id=4)
    c.emit("RUNTIME", cbid=9999, correlation_id=5)
    c.emit("DRIVER", cbid=243, start=1, end=2)
    c.emit("DRIVER", cbid=304)
    c.emit("MEMORY2", memory_kind=3, memory_operation_type=1, address=2**63 + 5, bytes=2**40, timestamp=9, name="pool",
           **{"memory_pool_config.pool.size_": 5, "memory_pool_config.address": 11})
    c.emit("EXTERNAL_CORRELATION", external_kind=3, external_id=2**62, correlation_id=1)
"""


def test_records_come_back_with_their_names_and_values(tmp_path: Path) -> None:
    result = collect(tmp_path, *CUPTI, app=RECORDS)
    assert (result.returncode, result.stdout) == (0, "")
    capture = read_capture(tmp_path / "c.arrow")
    api = {"process_id": 7, "thread_id": 8, "return_value": 2, "cbid": 20, "name": "cudaMalloc_v3020"}
    blank = dict.fromkeys(("start", "end", "process_id", "thread_id", "return_value", "correlation_id"), 0)
    assert capture.rows["RUNTIME"] == [
        *({"kind": "RUNTIME", "start": 10 + i, "end": 20 + i, "correlation_id": i, **api} for i in range(3)),
        {**blank, "kind": "RUNTIME", "cbid": 9999, "correlation_id": 5, "name": None},
    ]
    assert capture.rows["DRIVER"] == [
        {**blank, "kind": "DRIVER", "cbid": 243, "start": 1, "end": 2, "name": "cuMemAlloc_v2"}
    ]
    assert capture.rows["EXTERNAL_CORRELATION"] == [
        {"kind": "EXTERNAL_CORRELATION", "external_kind": 3, "external_id": 2**62, "correlation_id": 1}
    ]
    [memory] = capture.rows["MEMORY2"]
    assert {key: value for key, value in memory.items() if value} == {
        "kind": "MEMORY2",
        "memory_kind": 3,
        "memory_operation_type": 1,
        "address": 2**63 + 5,
        "bytes": 2**40,
        "timestamp": 9,
        "name": "pool",
        "memory_pool_config_size_": 5,
        "memory_pool_config_address": 11,
    }
    assert memory["source"] is None


def test_union_of_object_ids_is_told_apart_by_the_object_kind(tmp_path: Path) -> None:
    app = """
        import cupti.cupti as c
        thread = {"object_id.pt.process_id": 7, "object_id.pt.thread_id": 9}
        stream = {"object_id.dcs.device_id": 1, "object_id.dcs.context_id": 2, "object_id.dcs.stream_id": 3}
        c.emit("MARKER", flags_=2, timestamp=5, id=1, object_kind=2, name="request:0", domain="app", **thread)
        c.emit("MARKER", flags_=4, timestamp=6, id=1, object_kind=4, **stream)
    """
    collect(tmp_path, *CUPTI, app=app)
    rows = read_capture(tmp_path / "c.arrow").rows["MARKER"]
    ids = ["process_id", "thread_id", "device_id", "context_id", "stream_id"]
    assert [[row[f"object_id_{name}"] for name in ids] for row in rows] == [
        [7, 9, *[None] * 3],
        [None, None, 1, 2, None],
    ]
    assert [(row["name"], row["domain"]) for row in rows] == [("request:0", "app"), (None, None)]


@pytest.mark.parametrize("library_can_mute", ["0", "1"])
def test_chatty_calls_are_left_out_whether_or_not_the_library_can(tmp_path: Path, library_can_mute: str) -> None:
    collect(tmp_path, *CUPTI, app=RECORDS, STAND_IN_CAN_MUTE=library_can_mute)
    capture = read_capture(tmp_path / "c.arrow")
    assert [row["cbid"] for row in capture.rows["RUNTIME"]] == [20, 20, 20, 9999]
    assert capture.header["muted_calls"] == ["cuCtxGetCurrent", "cudaGetDevice_v3020"]
    assert capture.footer is not None
    assert capture.footer["muted_records"] == (1 if library_can_mute == "1" else 2)


def test_all_calls_and_no_api(tmp_path: Path) -> None:
    for name, option in (("all", "--all-calls"), ("none", "--no-api")):
        collect(tmp_path, "cupti", option, "-o", f"{name}.arrow", "--", "PYTHON", "app.py", app=RECORDS)
    everything, nothing = read_capture(tmp_path / "all.arrow"), read_capture(tmp_path / "none.arrow")
    assert [row["cbid"] for row in everything.rows["RUNTIME"]] == [20, 20, 20, 18, 9999]
    assert everything.header["muted_calls"] == []
    assert set(nothing.rows) == {"MEMORY2", "EXTERNAL_CORRELATION"}


def test_header_and_footer_say_what_happened(tmp_path: Path) -> None:
    app = """
        import os, cupti.cupti as c
        c.emit("GRAPH_TRACE", correlation_id=1)
        print(os.getpid())
    """
    result = collect(tmp_path, *CUPTI, app=app, STAND_IN_REFUSES="MEMSET", STAND_IN_PTHREAD_IDS="1")
    capture = read_capture(tmp_path / "c.arrow")
    header, footer = capture.header, capture.footer
    assert footer is not None
    assert header["pid"] == int(result.stdout)
    assert header["kinds_refused"] == {"MEMSET": "NOT_SUPPORTED"}
    assert "MEMSET" not in header["kinds"]
    assert header["thread_id_type"] == "DEFAULT"
    assert header["enums"]["memory_kind"] == {"0": "UNKNOWN", "2": "PINNED", "3": "DEVICE"}
    assert footer["skipped_records"] == {"GRAPH_TRACE, ActivityUnheardOf": 1}
    assert (footer["end_reason"], footer["records"]) == ("exit", {})
    assert "1 lost" in result.stderr
    for clock in ("realtime", "monotonic", "boottime", "monotonic_raw"):
        assert footer["clock"][clock] > header["clock"][clock]


def test_processes_below_get_files_of_their_own_once_they_use_cuda(tmp_path: Path) -> None:
    app = """
        import subprocess, sys
        emit = "import cupti.cupti as c; c.emit('RUNTIME', cbid=22)"
        for code in ("import torch; " + emit, emit):
            print(subprocess.run([sys.executable, "-c", code + "; import os; print(os.getpid())"], check=True,
                                 capture_output=True, text=True).stdout.strip())
    """
    result = collect(tmp_path, *CUPTI, app=app)
    user, _other = result.stdout.split()
    assert {path.name for path in tmp_path.glob("*.arrow")} == {"c.arrow", f"c.{user}.arrow"}
    assert [row["name"] for row in read_capture(tmp_path / f"c.{user}.arrow").rows["RUNTIME"]] == ["cudaFree_v3020"]
    assert read_capture(tmp_path / "c.arrow").rows == {}


def test_a_forked_child_leaves_its_parents_file_alone(tmp_path: Path) -> None:
    app = """
        import os, sys, cupti.cupti as c
        c.emit("RUNTIME", cbid=20)
        if os.fork() == 0:
            sys.exit(0)      # runs the exit handlers, as a forked worker that ends normally does
        os.wait()
        c.emit("RUNTIME", cbid=22)
    """
    assert collect(tmp_path, *CUPTI, app=app).returncode == 0
    capture = read_capture(tmp_path / "c.arrow")
    assert [row["cbid"] for row in capture.rows["RUNTIME"]] == [20, 22]
    assert capture.footer is not None


def test_the_sitecustomize_that_ours_hides_still_runs(tmp_path: Path) -> None:
    hidden = tmp_path / "site"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import builtins; builtins.was_here = True")
    app = "import cupti.cupti as c; assert was_here; c.emit('RUNTIME', cbid=20)"
    assert collect(tmp_path, *CUPTI, app=app, PYTHONPATH=str(hidden)).returncode == 0
    assert len(read_capture(tmp_path / "c.arrow").rows["RUNTIME"]) == 1
