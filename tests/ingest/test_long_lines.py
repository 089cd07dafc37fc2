"""A file of each format that ends in one endless line: its rows, and bounded memory however long the line is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data"
MAX_PEAK_MIB = 600
FILES = {
    "kineto": "kineto/old_array.json",
    "chrome_trace": "chrome_trace/begin_end.json",
    "ftrace": "ftrace/kernel_6.18_stacks.txt",
    "otlp": "server/otlp.jsonl",
    "request_log": "server/nginx_json.log",
    "kv_events": "server/kv_events.jsonl",
    "access_log": "server/nginx_bare.log",
    "prometheus_scrape": "server/openmetrics.txt",
    "collapsed": "collapsed/kernel.folded",
    "oomkill": "bcc/oomkill_example.txt",
    "slabratetop": "bcc/slabratetop_example.txt",
    "memleak": "bcc/memleak_example.txt",
    "stackcount": "bcc/stackcount_example.txt",
    "cupti_text": "cupti_text/unified_memory.txt",
    "metrics_csv": "host_samples/golden/vmstat.txt",
    "host_samples": "host_samples/numa_maps.txt",
    "tokens_csv": "tokens_csv/kv_leak.csv",
    "bpftrace_maps": "bpftrace_maps/biostacks_example.txt",
    "dcgm": "dcgm/long.csv",
    "bpftrace_cuda": "bpftrace_cuda/expandable.txt",
    "ncu_csv": "ncu/details.txt",
    "cupti": "leakpath_cupti/pools_and_graphs.arrow",
    "perf_script": "perf/kmem.txt",
    "nvidia_smi_query": "nvidia_smi/query.csv",
    "nvidia_smi_dmon": "nvidia_smi/dmon_csv.txt",
    "nvidia_smi_table": "nvidia_smi/table_loop.txt.gz",
    "slab_table": "slab_table/kmem_bpftrace.txt",
    "nvml_csv": "nvml_csv/ddp2.csv",
    "torch_snapshot": "torch/ddp2_rank0.pickle.gz",
}
TAIL_NOT_READ = ("torch_snapshot",)
"""A pickle ends where it says so."""


def _sweep(gib: float) -> None:
    files = [str(DATA / name) for name in FILES.values()]
    command = [sys.executable, "-m", "tests.ingest.long_line_sweep", str(gib), *files]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for row, expected in zip(rows, FILES, strict=True):
        state = "read" if expected in TAIL_NOT_READ else "partial"
        assert row["outcome"].startswith(f"{expected} {state} "), row
        assert row["peak_mib"] < MAX_PEAK_MIB, row


def test_a_line_of_16_mib() -> None:
    _sweep(1 / 64)


@pytest.mark.slow
def test_a_line_of_2_gib() -> None:
    _sweep(2)
