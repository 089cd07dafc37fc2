"""How each number is made, one line a block, and the tables it is made from."""

from __future__ import annotations

from dataclasses import dataclass

from reports.source import CaptureTables


@dataclass(frozen=True, slots=True)
class MethodLine:
    """One block of the report: the tables it reads with their row counts, and the rule in a sentence."""

    block: str
    tables: tuple[tuple[str, str], ...]
    sentence: str


_LINES = (
    (
        "Verdict and suspects",
        "leak_suspects leak_evidence",
        "A group of survivors is a suspect when survivors come from old and young epochs, live bytes at epoch ends"
        " rise (Mann–Kendall or exact permutation, Theil–Sen slope), and survivors outlive their epochs; or when one"
        " request attribute separates the keepers (Fisher's exact test).",
    ),
    (
        "Let go",
        "leak_suspects",
        "One-time: survivors of one early epoch or from before the first. Bounded: only the youngest epochs' survive,"
        " or live bytes level off. Inconclusive: too little evidence, with the reason.",
    ),
    (
        "Findings and causes",
        "findings root_causes",
        "Rules with evidence for and against; a rule without its evidence abstains and says so.",
    ),
    (
        "Attributes",
        "leak_evidence request_spans",
        "Requests of the suspect's process, counted by whether any survivor belongs to them.",
    ),
    (
        "Timeline",
        "live_bytes memory_ledger epochs allocations",
        "Live bytes after each event. A drawn point is the highest value of its slice of time; the ledger shows the"
        " fullest sample of each slice, whole.",
    ),
    (
        "Ledger",
        "memory_ledger",
        "Device used (driver's count) = sum of processes; a process = torch reserved + driver allocations outside"
        " torch + context and modules + unattributed.",
    ),
    (
        "Allocator",
        "segments blocks",
        "The allocator's own state at the last dump. Scatter = 1 − largest free block / all free bytes.",
    ),
    (
        "Requests",
        "requests request_latency slo",
        "Percentiles interpolate between requests; a server's histograms are read by the usual interpolation inside a"
        " bucket. An objective is judged over sliding windows with enough requests, else it abstains.",
    ),
    (
        "Tokens",
        "tokens token_memory",
        "Growth from a token to the next of its request, without intervals in which another began or ended; expected:"
        " 2 × layers × heads × head size × bytes of a number. Interval against position: seasonal Kendall slope.",
    ),
    (
        "Stalls and gaps",
        "sync_stalls stall_costs device_activity idle_gaps stream_pairs",
        "Calls that wait, allocate or build, counted once; shares are of unions of time. A device is idle where none of"
        " its operations runs; the host waited, was launching, or did something else, in this order.",
    ),
    (
        "Flame graphs",
        "allocations call_paths frames",
        "Allocated bytes by call path of the allocation, root to leaf; the peak is when most tensor bytes are live.",
    ),
    (
        "Clock and losses",
        "capture_files clock_alignments diagnostics",
        "Offsets are medians over allocations seen by two sources, else header clock pairs; nothing that is dropped"
        " goes uncounted.",
    ),
)


def read_method(tables: CaptureTables) -> list[MethodLine]:
    """All lines, with what each table holds in this capture."""
    return [
        MethodLine(block, tuple((name, _size(tables, name)) for name in names.split()), sentence)
        for block, names, sentence in _LINES
    ]


def _size(tables: CaptureTables, name: str) -> str:
    state = tables.states[name]
    return f"{state.row_count:,} rows" if state.state == "present" else state.state
