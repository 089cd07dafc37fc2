"""What a recording came to, as lines for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from .ebpf import EbpfRecorder
from .host import HostSampler
from .nvml import NvmlSampler
from .segments import FOOTER, read_segments
from .session import Session


def of_session(session: Session) -> Iterator[str]:
    if "cupti" in session.wishes:
        path = Path(session.wishes["cupti"]["path"])
        for one in sorted({path, *path.parent.glob(f"{path.stem}.*{path.suffix}")}):
            if one.exists():
                yield of_cupti(one)
    for sampler in session.samplers:
        if isinstance(sampler, NvmlSampler):
            yield of_nvml(sampler)
        elif isinstance(sampler, HostSampler):
            yield from of_host(sampler)
        elif isinstance(sampler, EbpfRecorder):
            yield of_ebpf(sampler)


def of_cupti(path: Path) -> str:
    """One line on a finished or torn `leakpath-cupti` file."""
    records = 0
    footer = None
    with path.open("rb") as file:
        for kind, table in read_segments(file):
            if kind == FOOTER:
                footer = json.loads(table["json"][0].as_py())
            records += 0 if kind.startswith("_") else table.num_rows
    size = f"{path.stat().st_size / 1e6:.1f} MB"
    if footer is None:
        return f"leakpath: cupti: {records} records in {path} ({size}); the program was killed, so the last are missing"
    lost = footer["dropped_records"] + sum(footer["skipped_records"].values())
    end = "" if footer["end_reason"] == "exit" else f"; ended by {footer['end_reason']}"
    return f"leakpath: cupti: {records} records in {path} ({size}), {lost} lost{end}"


def of_nvml(sampler: NvmlSampler) -> str:
    end = f"; sampling ended early: {sampler.failure}" if sampler.failure else ""
    return f"leakpath: nvml: {sampler.rows} rows in {sampler.path}{end}"


def of_host(sampler: HostSampler) -> Iterator[str]:
    end = f"; sampling ended early: {sampler.failure}" if sampler.failure else ""
    yield f"leakpath: host: {sampler.samples} samples in {sampler.path}{end}"
    for note in sampler.notes:
        yield f"leakpath: host: {note}"


def of_ebpf(recorder: EbpfRecorder) -> str:
    lost = f"{recorder.lost_events} lost"
    if recorder.lost_stacks:
        lost += f", {recorder.lost_stacks} stacks lost"
    end = f"; ended early: {recorder.failure}" if recorder.failure else ""
    return f"leakpath: ebpf: {recorder.records} records in {recorder.path}, {lost}{end}"
