"""Settings and capture notes: what is taken, what is refused, and that the schemas say the same as the code."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.capture_yaml import read_capture_yaml
from ingest.errors import BadInput
from schemas.capture import capture_schema
from schemas.config import Config, config_from, config_schema, load_config, sections
from schemas.documents import MAX_DOCUMENT_BYTES, read_document


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_not_named_keeps_its_default(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "leaks:\n  min_age_epochs: 5\nroot_causes:\n  kv_cache_frames: [MyCache]\n"))
    assert config.leaks.min_age_epochs == 5
    assert config.root_causes.kv_cache_frames == ("MyCache",)
    assert config.leaks.max_p_value == Config().leaks.max_p_value
    assert config.series == Config().series


@pytest.mark.parametrize("text", ["", "# nothing\n", "leaks: {}\n"])
def test_an_empty_file_is_the_defaults(tmp_path: Path, text: str) -> None:
    assert load_config(write(tmp_path, text)) == load_config(None) == Config()


def test_settings_survive_the_way_to_the_jobs(tmp_path: Path) -> None:
    config = config_from({"leaks": {"max_p_value": 0.05}, "root_causes": {"kv_cache_frames": ["a", "b"]}})
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(config.to_dict()))
    assert load_config(path) == config


def test_the_defaults_obey_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(config_schema())
    jsonschema.Draft202012Validator.check_schema(capture_schema())
    jsonschema.validate(Config().to_dict(), config_schema())


def test_every_setting_is_used() -> None:
    folder = Path(__file__).resolve().parents[2] / "pipeline"
    text = "".join(path.read_text() for path in folder.rglob("*") if path.suffix in (".py", ".sql"))
    for name in sections():
        for key in config_schema()["properties"][name]["properties"]:
            assert key in text, f"{name}.{key} changes nothing"


def test_every_setting_says_what_it_is() -> None:
    for name in sections():
        section = config_schema()["properties"][name]
        assert section["description"].endswith(".")
        for key, facts in section["properties"].items():
            assert facts["description"].endswith("."), key
            assert "default" in facts, key


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("leaks: {nope: 1}", "nope"),
        ("nope: 1", "nope"),
        ("leaks: 3", "leaks"),
        ("leaks: {min_age_epochs: 1.5}", "leaks.min_age_epochs"),
        ("leaks: {min_age_epochs: true}", "leaks.min_age_epochs"),
        ("leaks: {max_p_value: 1.1}", "leaks.max_p_value"),
        ("leaks: {min_growth_bytes: -1}", "leaks.min_growth_bytes"),
        ("root_causes: {kv_cache_frames: ['']}", "root_causes.kv_cache_frames.0"),
        ("- a list", "object"),
        ("leaks: [", "line 1"),
        ("a: &x 1\nb: *x", "aliases"),
        ("leaks: {}\nleaks: {}", "twice"),
        ("!!python/object/apply:os.system ['touch ran']", "python/object"),
        ("{" * 5000, "settings.yaml"),
    ],
)
def test_what_is_refused_names_the_place(tmp_path: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as caught:
        load_config(write(tmp_path, text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_no_text_too_large_and_missing(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="UTF-8"):
        load_config(path)
    path.write_bytes(b"#" * (MAX_DOCUMENT_BYTES + 1))
    with pytest.raises(BadInput, match="1 MiB"):
        load_config(path)
    with pytest.raises(BadInput, match="No such file"):
        load_config(tmp_path / "missing")


@given(st.text(max_size=80))
def test_any_text_is_taken_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "settings.yaml"
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        assert isinstance(load_config(path), Config)
    except BadInput as error:
        assert str(path) in str(error)


def test_notes_are_read_and_later_patterns_win(tmp_path: Path) -> None:
    text = "rank: 1\nhost: a\nfiles:\n  '*': {rank: 2}\n  'rank3/*': {rank: 3, clock_offset_ns: -5}\n"
    (tmp_path / "capture.yaml").write_text(text)
    notes = read_capture_yaml(tmp_path)
    assert notes.of("x") == {"rank": 2, "host": "a"}
    assert notes.of("rank3/x") == {"rank": 3, "host": "a", "clock_offset_ns": -5}
    assert read_capture_yaml(tmp_path / "without").of("x") == {"rank": None, "host": None}


@pytest.mark.parametrize(
    "text", ["rank: first", "rank: -1", "files: {a: {clock: sundial}}", "files: [a]", "hosts: b", "files: {a: {x: 1}}"]
)
def test_notes_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    (tmp_path / "capture.yaml").write_text(text)
    with pytest.raises(BadInput, match=r"capture\.yaml"):
        read_capture_yaml(tmp_path)


def test_a_document_is_checked_against_its_schema(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        read_document(write(tmp_path, "a: 1"), {"type": "object", "properties": {"a": {"type": "string"}}})


def test_facts_objectives_and_periods_of_a_capture(tmp_path: Path) -> None:
    (tmp_path / "capture.yaml").write_text(
        "model: m\nmodels: {m: {num_layers: 2, dtype_bytes: 0.5}}\nslo: {max_error_ratio: 5e-05}\n"
        "periods:\n- {name: a, start: 2026-11-30T11:00:00Z, end: 1796036401}\n"
        "- {name: b, kind: configuration, start: '2026-11-30 13:00:00+02:00', end: 1796036401000000000}\n"
    )
    columns = read_capture_yaml(tmp_path).rows()
    assert list(zip(*columns.values(), strict=True)) == [
        ("capture", "model", None, "m", None, None),
        ("slo", "max_error_ratio", 0.00005, None, None, None),
        ("model", "num_layers", 2.0, "m", None, None),
        ("model", "dtype_bytes", 0.5, "m", None, None),
        ("period", "a", None, "degrade", 1796036400 * 10**9, 1796036401 * 10**9),
        ("period", "b", None, "configuration", 1796036400 * 10**9, 1796036401 * 10**9),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("periods: [{name: a, start: 5, end: 4}]", "ends before it starts"),
        ("periods: [{name: a, start: soon, end: 4}]", "period a, start"),
        ("periods: [{name: a, start: 1}]", "'end' is a required property"),
        ("slo: {max_error_ratio: .nan}", "max_error_ratio"),
        ("slo: {p99: 1}", "p99"),
        ("models: {m: {num_layers: 0}}", "num_layers"),
        ("models: {m: {num_layers: 1e300}}", "num_layers"),
        ("models: {m: {head_dim: .nan}}", "head_dim"),
    ],
)
def test_facts_that_cannot_be_used(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "capture.yaml").write_text(text)
    with pytest.raises(BadInput, match="capture") as caught:
        read_capture_yaml(tmp_path)
    assert said in str(caught.value)
