"""`leakpath compare` on small captures that went through the pipeline: verdicts, files, exit codes, damaged input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import orjson
import pytest
from click.testing import CliRunner

from ingest.writer import ParquetFile
from pipeline.cli import cli
from schemas.tables import TABLES
from tests.compare.captures import serve
from tests.generate.allocator import MIB

ROOT = Path(__file__).resolve().parents[2]
SPEEDSCOPE = json.loads((ROOT / "tests/data/speedscope/file-format-schema.json").read_text("utf-8"))
RESULT = json.loads((ROOT / "schemas/comparison.schema.json").read_text("utf-8"))
BASELINE = json.loads((ROOT / "schemas/baseline.schema.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Analysed captures: 1 MiB kept by each of 10 requests, 100 MiB, nothing, and other workloads."""
    root = tmp_path_factory.mktemp("servers")
    return {
        "small": serve(root / "small", kept_bytes=MIB, requests=10),
        "large": serve(root / "large", kept_bytes=100 * MIB, requests=10, line=57, seed=2),
        "none": serve(root / "none", requests=24),
        "again": serve(root / "again", requests=24, seed=3, line=99),
        "slow": serve(root / "slow", requests=24, seed=3, pause_us=8_000),
        "moved": serve(root / "moved", kept_bytes=MIB, requests=10, entry="handle", seed=4),
    }


def ask(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(cli, ["compare", *map(str, arguments)])
    assert result.exit_code == code, result.output + result.stderr
    return result.stdout if code != 3 else result.stderr


def compared(out: Path, baseline: Path, candidate: Path, code: int) -> dict[str, Any]:
    """The gate's result; every file is checked against its schema."""
    answer = orjson.loads(ask(baseline, candidate, "--gate", "--json", "--out", out, code=code))
    assert orjson.loads((out / "gate.json").read_bytes()) == answer
    jsonschema.validate(answer, RESULT)
    for graph in (out / "flamegraphs").iterdir():
        jsonschema.validate(json.loads(graph.read_bytes()), SPEEDSCOPE)
    assert answer["gate"]["exit_code"] == code
    found: dict[str, Any] = answer
    return found


def rows(out: Path, sql: str) -> list[tuple[Any, ...]]:
    return duckdb.sql(sql.format(f"read_parquet('{out}/tables/comparison.parquet')")).fetchall()


def test_one_call_site_at_10_and_at_1000_mib(servers: dict[str, Path], tmp_path: Path) -> None:
    """Another line, another seed, a hundredfold leak: the site is one, and both its numbers are there."""
    found = compared(tmp_path, servers["small"], servers["large"], 1)
    growth = found["measures"][0]
    assert (growth["quantity"], growth["verdict"]) == ("leak_growth", "regressed")
    assert (growth["baseline"], growth["candidate"]) == (MIB, 100 * MIB)
    assert growth["change_low"] == growth["change_high"] == 99 * MIB
    site = next(
        row
        for row in found["paths"]
        if row["call_path"][-2:] == ["Store.remember (app/Store.py)", "clone (app/clone.py)"]
    )
    assert (site["quantity"], site["verdict"]) == ("end_bytes", "regressed")
    assert (site["baseline"], site["candidate"]) == (10 * MIB, 1000 * MIB)
    assert found["paths"][0] == site, "what changed most comes first"
    assert found["gate"]["verdict"] == "leak"
    page = (tmp_path / "compare.html").read_text()
    assert "10.5 MB" in page and "1.05 GB" in page
    assert "<script" not in page


def test_the_difference_is_that_of_the_tables(servers: dict[str, Path], tmp_path: Path) -> None:
    """Against plain sums over both `allocations`: rows of the table, and grown less shrunk in the flame graphs."""
    compared(tmp_path, servers["small"], servers["large"], 1)
    conditions = {"end_bytes": "free_ts_ns IS NULL", "allocated_bytes": "NOT is_alloc_before_window"}
    for quantity, condition in conditions.items():
        sums = []
        for name in ("small", "large"):
            [(size,)] = duckdb.sql(
                f"SELECT sum(allocated_bytes)::BIGINT FROM '{servers[name]}/tables/allocations.parquet'"
                f" WHERE {condition}"
            ).fetchall()
            sums.append(size)
        assert rows(
            tmp_path,
            "SELECT sum(baseline_value), sum(candidate_value) FROM {} WHERE comparison_scope = 'call_path'"
            f" AND quantity = '{quantity}'",
        ) == [tuple(sums)]
        graph = json.loads((tmp_path / f"flamegraphs/difference_{quantity}.speedscope.json").read_bytes())
        total = {
            word: sum(p["endValue"] for p in graph["profiles"] if word in p["name"]) for word in ("grew", "shrank")
        }
        assert total["grew"] - total["shrank"] == sums[1] - sums[0]


def test_peaks_and_lifetimes_are_those_of_the_tables(servers: dict[str, Path], tmp_path: Path) -> None:
    compared(tmp_path, servers["none"], servers["slow"], 1)
    for side, name in (("baseline", "none"), ("candidate", "slow")):
        lives = duckdb.sql(
            f"SELECT level, allocated_bytes, alloc_ts_ns, free_ts_ns FROM '{servers[name]}/tables/allocations.parquet'"
            " WHERE level = 'tensor'"
        ).fetchall()
        moments = sorted({life[2] for life in lives})
        peak = max(sum(b for _, b, s, e in lives if s <= t and (e is None or e > t)) for t in moments)
        assert rows(
            tmp_path, f"SELECT {side}_value FROM {{}} WHERE quantity = 'peak_bytes' AND comparison_scope = 'capture'"
        ) == [(peak,)]
        half = sorted(e - s for _, _, s, e in lives if e is not None)
        [(told,)] = rows(
            tmp_path,
            f"SELECT {side}_value FROM {{}} WHERE quantity = 'lifetime_p50_ns' AND compared_level = 'tensor'",
        )
        assert told == round((half[11] + half[12]) / 2)


def test_a_slower_candidate_regresses_and_a_rerun_does_not(servers: dict[str, Path], tmp_path: Path) -> None:
    found = compared(tmp_path / "slow", servers["none"], servers["slow"], 1)
    verdicts = {row["quantity"]: row["verdict"] for row in found["measures"]}
    assert (verdicts["latency_p95"], verdicts["throughput"], verdicts["leak_growth"]) == (
        "regressed",
        "regressed",
        "unchanged",
    )
    assert found["gate"]["verdict"] == "regressed"
    found = compared(tmp_path / "fast", servers["slow"], servers["none"], 0)
    assert found["verdict"] == "improved"
    found = orjson.loads(ask(servers["none"], servers["again"], "--json", "--out", tmp_path / "again"))
    assert "regressed" not in {row["verdict"] for row in (*found["measures"], *found["paths"])}
    assert not (tmp_path / "again" / "gate.json").exists()


@pytest.mark.parametrize(("name", "code"), [("none", 0), ("small", 1)])
def test_a_capture_against_itself(servers: dict[str, Path], tmp_path: Path, name: str, code: int) -> None:
    """Unchanged in everything that is known; the gate answers for the leak alone."""
    found = compared(tmp_path, servers[name], servers[name], code)
    judged = [row for row in (*found["measures"], *found["paths"]) if row["baseline"] is not None and row["verdict"]]
    assert len(judged) > 10
    assert {row["verdict"] for row in judged} == {"unchanged"}
    assert {row["change"] for row in judged} == {0}
    assert "Both are made of the same files." in (tmp_path / "compare.html").read_text()
    assert (
        json.loads((tmp_path / "flamegraphs/difference_end_bytes.speedscope.json").read_bytes())["profiles"][0][
            "weights"
        ]
        == []
    )


def test_a_summary_file_stands_for_the_capture(servers: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    assert ask("--save-baseline", file, servers["small"]) == f"{file}\n"
    jsonschema.validate(json.loads(file.read_bytes()), BASELINE)
    assert file.stat().st_size < 50_000
    whole = compared(tmp_path / "a", servers["small"], servers["large"], 1)
    assert compared(tmp_path / "b", file, servers["large"], 1) == whole
    for name in ("tables/comparison.parquet", "compare.html", "flamegraphs/difference_end_bytes.speedscope.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    ask("--save-baseline", tmp_path / "again.json", servers["small"])
    assert file.read_bytes() == (tmp_path / "again.json").read_bytes()


def test_a_renamed_function_does_not_part_a_call_path(servers: dict[str, Path], tmp_path: Path) -> None:
    compared(tmp_path, servers["small"], servers["moved"], 1)
    found = rows(
        tmp_path,
        "SELECT baseline_value, candidate_value, change_reason FROM {} WHERE quantity = 'leaked_bytes'"
        " AND compared_path LIKE '%handle (app/handle.py)%'",
    )
    assert [row[:2] for row in found] == [(10 * MIB, 10 * MIB)]
    assert "one frame differs" in found[0][2]


def test_summary_on_the_terminal(servers: dict[str, Path], tmp_path: Path) -> None:
    shown = ask(servers["small"], servers["large"], "--out", tmp_path)
    assert shown.startswith("large against small: Regressed: leaked bytes an epoch 1.05 MB → 105 MB, peak of ")
    assert "Peak of allocated memory" in shown and "gate: fail: the candidate leaks (exit code 1)" in shown
    assert str(tmp_path / "compare.html") in shown


def test_bad_input_is_one_line_and_3(servers: dict[str, Path], tmp_path: Path) -> None:
    raw, good = servers["small"].parent.parent / "small", tmp_path / "good.json"
    ask("--save-baseline", good, servers["large"])
    (tmp_path / "empty").mkdir()
    for path, said in (
        (tmp_path / "nowhere", "no such folder"),
        (tmp_path / "empty", "no analysed capture"),
        (raw, "no analysed capture"),
        (servers["small"].parent, "several captures in here; give the folder of one of them: again, large"),
        (raw / "snapshot.pickle", "a damaged summary"),
        (raw / "requests.jsonl", "a damaged summary"),
    ):
        for arguments in (
            (path, good),
            (good, path),
            ("--save-baseline", tmp_path / "x", path),
        ):
            error = ask(*arguments, "--out", tmp_path / "out", code=3)
            assert error.count("\n") == 1 and said in error
    assert not (tmp_path / "out").exists()


def test_damaged_and_hostile_summaries(servers: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    ask("--save-baseline", file, servers["small"])
    good = file.read_bytes()
    plain = json.loads(good)
    units = len(plain["epochs"]["sizes"])
    bad: list[Any] = [good[:i] for i in range(0, len(good) - 1, len(good) // 10)]
    bad += [b"", b"[]", b"{}", b"null", b"\xff\xfe{", b"[" * 100_000, b'{"schema":' + b"[" * 100_000]
    bad += [plain | change for change in (
        {"schema": "other"}, {"version": 2}, {"version": "1"}, {"version": 10**400}, {"extra": 1}, {"frames": []},
        {"frames": ["x" * 5000] * 3}, {"paths": plain["paths"] * 2000}, {"settings": {"a": {}}}, {"devices": [None]},
        {"epochs": plain["epochs"] | {"sizes": [1]}}, {"epochs": plain["epochs"] | {"sizes": [0] * units}},
        {"epochs": plain["epochs"] | {"leaked_bytes": [-1] * units}}, {"epochs": plain["epochs"] | {"count": 2**63}},
        {"epochs": plain["epochs"] | {"sizes": [2**62] * units}},
        {"requests": plain["requests"] | {"gaps_ns": []}}, {"leaks": plain["leaks"] | {"state": "fine"}},
        {"leaks": plain["leaks"] | {"growth_bytes_per_epoch": float("nan")}},
        {"paths": [plain["paths"][0] | {"frames": [10**6]}]}, {"paths": [plain["paths"][0] | {"kept": [[10**6, 1]]}]},
    )]  # fmt: skip
    for content in bad:
        file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        error = ask(file, file, "--gate", "--out", tmp_path / "out", code=3)
        assert error.count("\n") == 1 and error.startswith(f"leakpath: error: {file}: "), content


def test_names_of_a_summary_can_not_steer_page_or_terminal(servers: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    ask("--save-baseline", file, servers["small"])
    evil = "<script>alert(1)</script>\u001b[31m\u202e"
    plain = json.loads(file.read_bytes())
    plain |= {"capture": evil, "devices": [evil], "frames": [evil + str(i) for i in range(len(plain["frames"]))]}
    plain["settings"] = {evil: evil}
    plain["leaks"]["titles"] = [evil]
    file.write_text(json.dumps(plain))
    shown = ask(file, file, "--out", tmp_path / "out")
    page = (tmp_path / "out" / "compare.html").read_text()
    for text in (shown, page):
        assert "\u001b" not in text and "\u202e" not in text
    assert "<script" not in page


def test_wrong_usage(servers: dict[str, Path], tmp_path: Path) -> None:
    for arguments in ((servers["small"],), (), ("--save-baseline", tmp_path / "x", servers["small"], servers["large"])):
        result = CliRunner().invoke(cli, ["compare", *map(str, arguments)])
        assert result.exit_code == 2


def test_a_comparison_inside_out(servers: dict[str, Path], tmp_path: Path) -> None:
    """Its rows are asked for beside the captures' tables, and it is taken for no capture."""
    out = tmp_path / "out"
    shutil.copytree(servers["none"], out / "none")
    ParquetFile(TABLES["comparison"], out / "none/tables/comparison.parquet").close()
    file = tmp_path / "baseline.json"
    ask("--save-baseline", file, out)
    ask(file, out, "--out", out / "none-none")
    result = CliRunner().invoke(cli, ["query", str(out), "SELECT DISTINCT capture FROM comparison", "--format", "csv"])
    assert result.stdout.split() == ['"capture"', '"none-none"']
    ask(file, out, "--out", tmp_path / "again")
