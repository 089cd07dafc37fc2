"""Chrome traces of other programs: beginnings and ends, spans, instants, counters, samples, and what is not ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingest.chrome_trace import IMPORTER
from ingest.opening import read_head
from ingest.registry import importer_for
from tests.ingest.support import SHARED, check_importer, counts_of, ingest_file
from tests.ingest.text_damage import Tables, data_loss, read_text

DATA = Path(__file__).parents[1] / "data" / "chrome_trace"
CORPUS = SHARED / "corpus" / "chrome_trace"


def event(phase: str, name: str | None, ts: int, **more: object) -> dict[str, object]:
    named = {} if name is None else {"name": name}
    return {"pid": 3, "tid": 4, "ph": phase, "ts": ts, **named, **more}


def read(events: list[dict[str, object]], tmp_path: Path) -> Tables:
    return read_text(json.dumps(events), tmp_path, IMPORTER)


def spans(tables: Tables) -> list[tuple[object, ...]]:
    return sorted(tables["ranges"].select("name", "start_ns", "end_ns").rows(), key=str)


def test_begin_end_and_complete_events_are_ranges_alike(tmp_path: Path) -> None:
    tables = check_importer(DATA / "begin_end.json", tmp_path, IMPORTER)
    expected = {}
    open_ranges: list[dict[str, object]] = []
    for each in json.loads((DATA / "begin_end.json").read_text()):
        if each["ph"] == "X":
            expected[each["name"]] = (each["ts"] * 1000, (each["ts"] + each["dur"]) * 1000)
        elif each["ph"] == "B":
            open_ranges.append(each)
        else:
            begun = next(b for b in reversed(open_ranges) if b["name"] == each["name"])
            expected[each["name"]] = (begun["ts"] * 1000, each["ts"] * 1000)
    assert spans(tables) == sorted(((name, *span) for name, span in expected.items()), key=str)
    assert set(tables["ranges"]["range_kind"]) == {"push_pop"}
    assert counts_of(tables) == {}


@pytest.mark.parametrize(
    ("events", "expected", "counted"),
    [
        ([event("E", "a", 9), event("B", "a", 1)], [("a", 1000, 9000)], {}),
        ([event("B", "a", 1), event("E", None, 9)], [("a", 1000, 9000)], {}),
        ([event("B", "a", 1), event("B", "b", 2), event("E", "a", 9)],
         [("a", 1000, 9000), ("b", 2000, None)], {"ranges_not_ended": 1}),
        ([event("B", "a", 1), event("E", "b", 9)],
         [("a", 1000, None)], {"ranges_not_ended": 1, "ends_without_begin": 1}),
        ([event("b", "a", 1, cat="c", id=1), event("b", "a", 2, cat="c", id=2),
          event("e", "a", 5, cat="c", id=1), event("e", "a", 7, cat="c", id=2, tid=9)],
         [("a", 1000, 5000), ("a", 2000, 7000)], {}),
        ([event("X", "a", 1)], [("a", 1000, None)], {"events_without_duration": 1}),
        ([event("i", "a", 1), event("I", "b", 2)], [("a", 1000, 1000), ("b", 2000, 2000)], {}),
        ([event("X", "a", 1, dur=1), event("N", "o", 2, id=1), event("D", "o", 3, id=1)],
         [("a", 1000, 2000)], {"other_events": 2}),
    ],
)  # fmt: skip
def test_pairs(
    events: list[dict[str, object]], expected: list[tuple[object, ...]], counted: dict[str, int], tmp_path: Path
) -> None:
    tables = read(events, tmp_path)
    assert spans(tables) == expected
    assert {name: count for (name, _), count in counts_of(tables).items()} == counted


def test_counters_threads_and_arguments(tmp_path: Path) -> None:
    tables = read(
        [
            event("C", "heap", 1, args={"used": 5, "free": 7.5, "note": "x"}),
            event("C", "rate", 2, args={"value": 1}),
            event("X", "a", 3, dur=1, tid="main", cat="gui", args={"b": [1], "a": None}),
        ],
        tmp_path,
    )
    rows = tables["metrics"].select("metric", "labels", "ts_ns", "value", "process_id").rows()
    assert sorted(rows) == [
        ("heap", '{"series":"free"}', 1000, 7.5, 3),
        ("heap", '{"series":"used"}', 1000, 5.0, 3),
        ("rate", None, 2000, 1.0, 3),
    ]
    row = tables["ranges"].row(0, named=True)
    assert (row["domain"], row["attributes"]) == ("gui", '{"a":null,"b":[1]}')
    assert row["thread_id"] is not None


def test_samples_with_their_stacks(tmp_path: Path) -> None:
    tables = check_importer(DATA / "samples.json", tmp_path, IMPORTER)
    trace = json.loads((DATA / "samples.json").read_text())
    frames = {row["frame_id"]: row["function"] for row in tables["frames"].to_dicts()}
    paths = {row["call_path_id"]: [frames[f] for f in row["frame_ids"]] for row in tables["call_paths"].to_dicts()}

    def stack(leaf: object) -> list[str]:
        found = trace["stackFrames"].get(str(leaf))
        return [*stack(found.get("parent")), found["name"]] if found else []

    expected = [(int(s["ts"]) * 1000, int(s["tid"]), stack(s["sf"])) for s in trace["samples"]]
    rows = tables["stack_samples"].select("ts_ns", "thread_id", "call_path_id").rows()
    assert [(ts, tid, paths[path]) for ts, tid, path in rows] == expected
    assert tables["processes"].select("process_id", "process_name").rows() == [(7512, "hermes")]


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not beside the checkout")
def test_every_file_of_the_corpus(tmp_path: Path) -> None:
    paths = sorted(CORPUS.rglob("*.json"))
    assert len(paths) > 25
    for path in paths:
        found = importer_for(read_head(path), path)
        if path.name == "incomplete-trace.json":  # speedscope's own format
            assert found is None
            continue
        assert found is IMPORTER, path.name
        tables = ingest_file(path, tmp_path, IMPORTER)
        assert not data_loss(tables), path.name
        starts = [e for e in _events(path) if e["ph"] in ("X", "B")]
        assert (tables["ranges"].height if "ranges" in tables else 0) == len(starts), path.name


def _events(path: Path) -> list[dict[str, str]]:
    text = path.read_text().strip().rstrip(",")
    if text.startswith("[") and not text.endswith("]"):  # the array may lack its end
        text += "]"
    trace = json.loads(text)
    return trace if isinstance(trace, list) else trace["traceEvents"]


def test_what_is_no_trace(tmp_path: Path) -> None:
    for number, text in enumerate(
        ('{"ph": "X"}', "[1, 2]", '[{"file": "a"}]', "[]", '{"events": [{"ph": "X"}]}', "x[{")
    ):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        assert importer_for(read_head(path), path) not in (IMPORTER,), text
