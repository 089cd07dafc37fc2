"""`leakpath collect torch` on programs that use a stand-in for torch."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import pytest

from .harness import collect, read_capture

TORCH = ("torch", "-o", "s.pickle")
RUN = ("--", "PYTHON", "app.py")


def _load(path: Path) -> Any:
    return pickle.loads(path.read_bytes())


def test_history_is_on_from_cudas_first_moment_and_dumped_at_exit(tmp_path: Path) -> None:
    app = """
        import torch
        assert torch.cuda.memory.history == [], "CUDA is not up yet"
        torch.cuda.init()
        assert len(torch.cuda.memory.history) == 1
        assert torch.__spec__.loader is torch.__loader__ and "Wrapped" not in repr(torch.__loader__)
    """
    result = collect(tmp_path, *TORCH, "--max-entries", "77", "--stacks", "all", *RUN, app=app)
    assert (result.returncode, result.stdout) == (0, "")
    [history] = _load(tmp_path / "s.pickle")["device_traces"]
    assert history == [{"enabled": "all", "stacks": "all", "max_entries": 77}]
    assert {path.name for path in tmp_path.iterdir()} == {"app.py", "s.pickle"}


def test_signal_and_oom_dumps_stand_beside_and_never_overwrite(tmp_path: Path) -> None:
    app = """
        import os, signal, torch
        torch.cuda.init()
        open("s.sigusr1-1.pickle", "w").write("precious")
        for step in range(2):
            torch.cuda.memory.history.append(step)
            os.kill(os.getpid(), signal.SIGUSR1)
        for step in range(5):
            torch.cuda.memory.history.append("oom")
            torch.cuda.run_out_of_memory()
        open("s.pickle", "w").write("precious")
    """
    result = collect(tmp_path, *TORCH, "--signal", "SIGUSR1", "--max-oom-dumps", "2", *RUN, app=app)
    assert result.returncode == 0
    names = {path.name for path in tmp_path.glob("s.*")}
    [late] = names - {"s.pickle", *(f"s.sigusr1-{i}.pickle" for i in (1, 2, 3)), *(f"s.oom-{i}.pickle" for i in (1, 2))}
    assert (tmp_path / "s.pickle").read_text() == (tmp_path / "s.sigusr1-1.pickle").read_text() == "precious"
    seen = [len(_load(tmp_path / name)["device_traces"][0]) - 1 for name in (
        "s.sigusr1-2.pickle", "s.sigusr1-3.pickle", "s.oom-1.pickle", "s.oom-2.pickle", late
    )]  # fmt: skip
    assert seen == [1, 2, 3, 4, 7]


def test_gzip_by_name(tmp_path: Path) -> None:
    app = "import torch; torch.cuda.init(); torch.cuda.run_out_of_memory()"
    collect(tmp_path, "torch", "-o", "s.pickle.gz", *RUN, app=app)
    for name in ("s.pickle.gz", "s.oom-1.pickle.gz"):
        assert pickle.loads(gzip.decompress((tmp_path / name).read_bytes()))["segments"] == []


@pytest.mark.parametrize(
    ("app", "complaint"),
    [
        ("pass", "did not import torch"),
        ("import torch", "did not initialise CUDA"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGUSR2)\nimport torch", "has not initialised CUDA yet"),
    ],
)
def test_nothing_to_record_is_said_and_is_no_failure(tmp_path: Path, app: str, complaint: str) -> None:
    result = collect(tmp_path, *TORCH, *RUN, app=app)
    assert result.returncode == 0
    assert complaint in result.stderr
    assert not (tmp_path / "s.pickle").exists()


def test_a_torch_without_the_feature_is_named_and_the_program_runs_on(tmp_path: Path) -> None:
    app = "import torch; torch.cuda.init(); print('done')"
    result = collect(tmp_path, *TORCH, *RUN, app=app, STAND_IN_OLD_TORCH="1")
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert "this torch (2.11.0+standin) can't record memory" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_dump_that_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    app = """
        import resource, signal, torch
        torch.cuda.init()
        torch.cuda.memory.history.append("x" * 100_000)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    """
    result = collect(tmp_path, *TORCH, *RUN, app=app)
    assert result.returncode == 0
    assert "no snapshot written" in result.stderr and "Traceback" not in result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"app.py"}


def test_a_forked_worker_writes_no_snapshot(tmp_path: Path) -> None:
    app = """
        import os, sys, torch
        torch.cuda.init()
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
    """
    collect(tmp_path, *TORCH, *RUN, app=app)
    assert {path.name for path in tmp_path.iterdir()} == {"app.py", "s.pickle"}


def test_all_recorders_at_once(tmp_path: Path) -> None:
    app = "import torch, cupti.cupti as c; torch.cuda.init(); c.emit('RUNTIME', cbid=20); raise SystemExit(5)"
    inner = ("leakpath", "collect", "torch", "-o", "s.pickle", "--", "leakpath", "collect", "nvml", "-o", "n.csv")
    result = collect(tmp_path, "cupti", "-o", "c.arrow", "--", *inner, *RUN, app=app)
    assert result.returncode == 5
    assert len(read_capture(tmp_path / "c.arrow").rows["RUNTIME"]) == 1
    assert len(_load(tmp_path / "s.pickle")["device_traces"][0]) == 1
    assert (tmp_path / "n.csv").read_text().count("\n") > 3
