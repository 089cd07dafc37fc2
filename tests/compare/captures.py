"""Small servers under record, analysed by the pipeline, to be compared."""

from __future__ import annotations

from pathlib import Path

from ingest.capture import capture_files
from pipeline.steps import analyze, ingest
from schemas.config import Config
from tests.generate.allocator import MIB
from tests.generate.recording import Recording


def serve(
    folder: Path,
    *,
    kept_bytes: int = 0,
    requests: int = 24,
    line: int = 42,
    seed: int = 1,
    buffer_bytes: int = 8 * MIB,
    pause_us: int = 5_000,
    prompt_tokens: int = 16,
    entry: str = "serve",
) -> Path:
    """Record a server and analyse it; every request keeps `kept_bytes` at `remember`, whose line is `line`.

    Returns the analysed folder. Each request takes some 2 to 3 × `pause_us`.
    """
    run = Recording(seed)
    weights = [run.alloc(4 * MIB, "build", "load") for _ in range(4)]
    assert weights
    kept = []
    for number in range(requests):
        with run.request(str(number), status=200, prompt_tokens=prompt_tokens, output_tokens=4):
            buffer = run.alloc(buffer_bytes, entry, f"forward:{line + 1}", "linear")
            run.tick(2 * pause_us, 3 * pause_us)
            if kept_bytes:
                kept.append(run.alloc(kept_bytes, entry, f"Store.remember:{line}", "clone"))
            run.free(buffer)
    return analysed(run.write(folder))


def analysed(capture: Path) -> Path:
    """The capture's results, in a folder of its name beside it."""
    out = capture.parent / "out" / capture.name
    ingest(capture_files(capture), capture, out)
    analyze(out, Config())
    return out
