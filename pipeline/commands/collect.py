"""`leakpath collect`: record a capture of a program."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from ingest.collect.ebpf import EbpfRecorder
from ingest.collect.ebpf_wish import Kind, Wish, script_of
from ingest.collect.host import HostSampler
from ingest.collect.nvml import NvmlSampler
from ingest.collect.session import Session, new_output

Target = tuple[str, ...]
Command = TypeVar("Command", bound=Callable[..., Any])
_target = click.argument("target", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")


def _output(default: str) -> Callable[[Command], Command]:
    text = "File to write. It must not exist yet."
    return click.option(
        "-o", "--out", type=click.Path(path_type=Path), default=Path(default), show_default=True, help=text
    )


@click.group()
@click.pass_context
def collect(context: click.Context) -> None:
    """Record a capture of a program, on the machine with the GPU.

    Recorders combine: the command of one may be another `leakpath collect ...`, and the program runs once under all.
    The exit code is the program's.
    """
    if not isinstance(context.obj, Session):
        context.obj = Session()


@collect.command()
@_output("cupti.arrow")
@click.option("--api/--no-api", default=True, help="Record runtime and driver API calls. [default: api]")
@click.option("--all-calls", is_flag=True, help="Also the frequent API calls that change nothing, muted by default.")
@click.option(
    "--flush-period",
    type=click.FloatRange(0.01, 3600),
    default=1.0,
    show_default=True,
    help="Seconds between writes: what a killed program loses at most.",
)
@click.option(
    "--delivery",
    type=click.Choice(["buffers", "objects"]),
    default="buffers",
    show_default=True,
    help="How records are taken from CUPTI: its buffers, or (slow) cupti-python's objects.",
)
@_target
@click.pass_obj
def cupti(
    session: Session, out: Path, api: bool, all_calls: bool, flush_period: float, delivery: str, target: Target
) -> None:
    """CUDA activity: API calls, driver allocations, kernels, copies, synchronisation, NVTX ranges.

    The program's Python needs cupti-python (of the release of its CUDA) and pyarrow.
    """
    wish = {"api": api, "all_calls": all_calls, "flush_period_s": flush_period, "delivery": delivery}
    _add(session, "cupti", out, wish)
    _go(session, target)


@collect.command()
@_output("snapshot.pickle")
@click.option(
    "--max-entries",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Allocator events kept; the oldest are lost first.",
)
@click.option("--stacks", type=click.Choice(["python", "all"]), default="python", show_default=True)
@click.option("--signal", "signal_name", default="SIGUSR2", show_default=True, help="Dump on this signal; '' for none.")
@click.option("--max-oom-dumps", type=click.IntRange(min=0), default=3, show_default=True)
@_target
@click.pass_obj
def torch(
    session: Session,
    out: Path,
    max_entries: int,
    stacks: str,
    signal_name: str,
    max_oom_dumps: int,
    target: Target,
) -> None:
    """PyTorch's allocator history: a snapshot at exit, on a signal, and when memory runs out."""
    wish = {"max_entries": max_entries, "stacks": stacks, "signal_name": signal_name, "max_oom_dumps": max_oom_dumps}
    _add(session, "torch", out, wish)
    _go(session, target)


@collect.command()
@_output("nvml.csv")
@click.option("--period", type=click.FloatRange(0.005, 3600), default=0.1, show_default=True, help="Seconds a sample.")
@click.option("--duration", type=click.FloatRange(0.01), help="Seconds to sample for, when no command is given.")
@_target
@click.pass_obj
def nvml(session: Session, out: Path, period: float, duration: float | None, target: Target) -> None:
    """Device and per-process GPU memory, while a command runs or for a time. Ctrl-C ends it."""
    if target and duration is not None:
        raise click.UsageError("give --duration or a command, not both")
    sampler = NvmlSampler(new_output(out), period)
    if target:
        session.samplers.append(sampler)
        _go(session, target)
    try:
        with sampler:
            sampler.wait(duration)
    except KeyboardInterrupt:
        pass
    from ingest.collect import summary

    click.echo(summary.of_nvml(sampler), err=True)
    sys.exit(1 if sampler.failure else 0)


@collect.command()
@_output("host.txt")
@click.option("--pid", "pids", type=click.IntRange(min=1), multiple=True, help="Process to sample, with its children.")
@click.option("--cgroup", default="auto", show_default=True, help="Folder of a cgroup (version 2), auto or none.")
@click.option("--interval", type=click.FloatRange(0.01, 3600), default=1.0, show_default=True, help="Seconds a sample.")
@click.option("--duration", type=click.FloatRange(0.01), help="Seconds to sample for, when no command is given.")
@_target
@click.pass_obj
def host(
    session: Session,
    out: Path,
    pids: tuple[int, ...],
    cgroup: str,
    interval: float,
    duration: float | None,
    target: Target,
) -> None:
    """Host memory: cgroup, processes, NUMA nodes, pressure. Ends with the processes, at Ctrl-C or at SIGTERM."""
    if target and (pids or duration is not None):
        raise click.UsageError("give --pid and --duration, or a command, not both")
    sampler = HostSampler(new_output(out), interval, pids, cgroup)
    if target:
        session.samplers.append(sampler)
        _go(session, target)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sampler.stop())
    with sampler:
        sampler.wait(duration)
    from ingest.collect import summary

    for line in summary.of_host(sampler):
        click.echo(line, err=True)
    sys.exit(1 if sampler.failure else 0)


@collect.command()
@click.argument("kind", type=click.Choice(["cuda", "slab", "faults"]))
@_output("bpftrace.txt")
@click.option("--pid", type=click.IntRange(min=1), help="Record this process and those it starts.")
@click.option("--duration", type=click.FloatRange(0.01), help="Seconds to record for, when no command is given.")
@click.option("--libcuda", type=click.Path(), help="The CUDA driver's library, found by itself where possible.")
@click.option("--runtime", type=click.Path(), help="Program with the CUDA runtime linked in, to record its calls.")
@click.option("--stacks", is_flag=True, help="With slab: the kernel stack of every row.")
@click.option("--print", "only_print", is_flag=True, help="Print the bpftrace script and do nothing.")
@_target
@click.pass_obj
def ebpf(
    session: Session,
    kind: Kind,
    out: Path,
    pid: int | None,
    duration: float | None,
    libcuda: str | None,
    runtime: str | None,
    stacks: bool,
    only_print: bool,
    target: Target,
) -> None:
    """CUDA driver allocations, kernel slab allocations or page faults, by bpftrace; needs root.

    With neither a command nor --pid every process is recorded. Ctrl-C or SIGTERM ends it.
    """
    if target and (pid is not None or duration is not None):
        raise click.UsageError("give --pid and --duration, or a command, not both")
    wish = Wish(kind, pid, bool(target), libcuda, runtime, stacks)
    if only_print:
        click.echo(script_of(wish), nl=False)
        return
    recorder = EbpfRecorder(new_output(out), wish)
    if target:
        session.samplers.append(recorder)
        _go(session, target)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: recorder.stop())
    with recorder:
        recorder.wait(duration)
    from ingest.collect import summary

    click.echo(summary.of_ebpf(recorder), err=True)
    sys.exit(1 if recorder.failure else 0)


def _add(session: Session, name: str, out: Path, wish: dict[str, Any]) -> None:
    if name in session.wishes:
        raise click.UsageError(f"collect {name} is there twice")
    session.wishes[name] = {"path": str(new_output(out)), **wish}


def _go(session: Session, target: Target) -> NoReturn:
    """Run the target under the session's recorders, unless it is one more recorder: then let that one join."""
    if not target:
        raise click.UsageError("no command; put it after --, as in: -- python app.py")
    if Path(target[0]).name == "leakpath" and target[1:2] == ("collect",):
        with collect.make_context("leakpath collect", list(target[2:]), obj=session) as context:
            collect.invoke(context)
    code = session.run(target)
    from ingest.collect import summary

    for line in summary.of_session(session):
        click.echo(line, err=True)
    sys.exit(code)
