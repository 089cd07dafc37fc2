# Helpers of the rules: where things lie, and what the run's configuration says of a capture.
from pathlib import Path

CAPTURES = config.get("captures", {})
OUTPUTS = config.get("outputs", {"ingest": [], "analyze": []})
CODE = config.get("code", {"data": "", "report": ""})
SETTINGS = config.get("settings", "")
INGEST_SETTINGS = config.get("ingest_settings", "")


wildcard_constraints:
    capture=r"[A-Za-z0-9_][A-Za-z0-9._-]*",


def capture_inputs(wildcards):
    """Files of the capture. Their content decides, by the digest in params: a new time alone changes nothing.

    Snakemake takes a brace in a path for a wildcard, with no way to quote it: such a file counts by the digest only.
    """
    return [ancient(path) for path in CAPTURES[wildcards.capture]["files"] if "{" not in path]


def capture_digest(wildcards):
    return CAPTURES[wildcards.capture]["digest"]


def capture_root(wildcards, input):
    """The capture as linked below OUT: a folder, or a single file."""
    root = f".leakpath/inputs/{wildcards.capture}"
    files = [path for path in input if root in str(path)]
    return f"{out_folder(files[0], root)}/{root}" if files else root


def out_folder(path, part):
    """OUT, told from a path of which `part` is below OUT: with a storage provider OUT lies in a folder of its own."""
    return str(Path(str(path)[: str(path).rindex(part)]))


def out(wildcards, output):
    return out_folder(output[0], f"{wildcards.capture}/")


def outputs(*stages):
    """Files that stages write, as patterns."""
    return [f"{{capture}}/{path}" for stage in stages for path in OUTPUTS[stage]]


def of_all_captures(pattern):
    return [pattern.replace("{capture}", name) for name in CAPTURES]


def index_files():
    return ["leakpath.duckdb", "index.html"] if CAPTURES else []


def memory(base_mb, factor):
    """Memory in MB that grows with the input's size, and with each try."""
    return lambda wildcards, input, attempt: int((base_mb + factor * input.size_mb) * attempt)
