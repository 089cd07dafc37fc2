"""What must reach no table: secrets, command lines, environments, people; and what must, though its name is alike."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.privacy import is_private, kind_of, without_keys
from tests.ingest.support import ingest_file

CANARY = "hunter2-canary"
T = 1_700_000_000 * 10**9
SECRET_KEYS = (
    "process.command_line", "process.command_args", "process.environment_variable.HF_TOKEN", "env.API_ROOT", "HF_TOKEN",
    "aws_secret_access_key", "clientSecret", "x-api-key", "privateKey", "db.connection_string", "DB_PASSWORD", "token",
    "refreshToken", "x-amz-security-token", "Set-Cookie", "authorizationHeader", "cmdline", "argv", "environ", "jwt",
)  # fmt: skip
PERSON_KEYS = ("user", "user.id", "enduser.id", "net.peer.ip", "host.mac", "user_email", "db.statement")
TEXT_KEYS = ("prompt", "messages", "gen_ai.prompt.0.content", "llm.completions.1.text", "output_text", "headers")
KEPT = {
    "max_tokens": 5, "output_tokens": 7, "time_to_first_token": 0.25, "token": 12, "prompt": 40, "environment": "prod",
    "deployment.environment.name": "prod", "cache_key": "abc", "model": "m", "finish_reason": "stop",
    "prefix_cache_hit": True, "sequence_id": "s1", "k8s.pod.name": "pod-0", "author": "x", "design": "y",
}  # fmt: skip


def otlp(key: str, value: object) -> str:
    inner = {"key": "other", "value": {"kvlistValue": {"values": [{"key": key, "value": {"stringValue": value}}]}}}
    attributes = [{"key": key, "value": {"stringValue": value}}, inner]
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "llm_request", "kind": 2, "attributes": attributes}
    span |= {"startTimeUnixNano": str(T), "endTimeUnixNano": str(T + 10**9)}
    span["events"] = [{"name": "e", "timeUnixNano": str(T), "attributes": attributes}]
    return json.dumps({"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [span]}]}]})


def request(key: str, value: object) -> str:
    record = {"request_id": "r1", "start_ns": T, "end_ns": T + 10**9, "route": "/v1/x", key: value, "o": {key: value}}
    return json.dumps(record) + "\n"


def csv(key: str, value: object) -> str:
    return f"request_id,start_ns,end_ns,status,{key}\nr1,{T},{T + 10**9},200,{value}\n"


def scrape(key: str, value: object) -> str:
    return f'# TYPE a gauge\na{{{"".join(c if c.isalnum() else "_" for c in key)}="{value}",b="c"}} 1\n'


def answer(key: str, value: object) -> str:
    series = {"metric": {"__name__": "a", key: value}, "value": [T / 1e9, "1"]}
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": [series]}})


def written(text: str, folder: Path) -> str:
    folder.mkdir()
    (folder / "x.bin").write_text(text)
    tables = ingest_file(folder / "x.bin", folder)
    assert any(name != "diagnostics" for name in tables)
    return "".join(str(frame.rows()) for frame in tables.values())


@pytest.mark.parametrize("write", [otlp, request, csv, scrape, answer])
def test_a_canary_reaches_no_table(write: Callable[[str, object], str], tmp_path: Path) -> None:
    assert CANARY in written(write("plain_word", CANARY), tmp_path / "seen"), "else nothing is shown"
    labels = [key for key in SECRET_KEYS if "env." not in key]
    keys = labels if write in (scrape, answer) else (*SECRET_KEYS, *PERSON_KEYS, *TEXT_KEYS)
    for number, key in enumerate(keys):
        assert CANARY not in written(write(key, CANARY), tmp_path / str(number)), key


@pytest.mark.parametrize(("key", "value"), KEPT.items())
def test_names_that_are_alike_stay(key: str, value: object) -> None:
    assert not is_private(kind_of(key), value)


@pytest.mark.parametrize("key", ["a" * 10_000 + ".password", "password" + "-" * 10_000, "env." + "A" * 10_000])
def test_very_long_keys_are_judged_by_both_ends(key: str) -> None:
    assert is_private(kind_of(key), CANARY)


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {CANARY}", f"--token={CANARY} run", f"https://me:{CANARY}@host/x",
        f"password: {CANARY}",
        f"sk-{CANARY * 3}", f"x api_key={CANARY}&b=1", f"eyJhbGciOiJIUzI1NiJ9.{CANARY}.sig",
    ],
)  # fmt: skip
def test_keys_within_texts(text: str) -> None:
    assert CANARY not in without_keys(text)
    assert (
        without_keys("7 tokens: 3, token 5 of 9, CUDA out of memory") == "7 tokens: 3, token 5 of 9, CUDA out of memory"
    )


@pytest.mark.parametrize(
    "filler", ["://a:", "eyJ", "eyJaaaaaaaa.", "sk-", "Bearer ", "token", "token:", "AKIA", "-----BEGIN "]
)
def test_hostile_texts_take_no_time(filler: str) -> None:
    began = time.monotonic()
    without_keys(filler * (300_000 // len(filler)))
    without_keys("x" + filler + "a" * 300_000)
    assert time.monotonic() - began < 10
