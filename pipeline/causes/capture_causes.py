"""Root causes that belong to no suspect, and what became of each of the rules (`root_cause_checks`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.causes.delayed_frees import check_delayed_frees
from pipeline.causes.graph_pools import check_graph_pools
from pipeline.causes.idle_contexts import idle_context_causes
from pipeline.causes.redundant_caches import check_redundant_caches
from pipeline.causes.rows import Checked, Row, root_cause_rows
from pipeline.database import Database
from pipeline.fragmentation import Fragmented, fragmentation_cause, fragmented_allocators
from pipeline.leaks.causes import RootCause
from pipeline.leaks.paths import CallPathReader
from schemas.config import Config

RULES = (
    "kv_cache", "autograd_graph", "outside_allocator", "host_memory", "cuda_context", "graph_pool", "fragmentation",
    "delayed_free", "redundant_kv", "unclassified",
)  # fmt: skip
_NEEDS = {
    "kv_cache": (
        "SELECT 1 FROM allocations WHERE level = 'tensor' AND alloc_ts_ns IS NOT NULL LIMIT 1",
        "no history of tensors was recorded",
        "Record torch.cuda.memory._record_memory_history() over the requests.",
    ),
    "outside_allocator": (
        "SELECT 1 FROM allocations WHERE level = 'driver' LIMIT 1",
        "no driver allocations were recorded",
        "Record CUPTI or eBPF driver calls beside the snapshot.",
    ),
    "host_memory": (
        "SELECT 1 FROM allocations WHERE level = 'host' OR memory_kind IN ('pinned', 'pageable') LIMIT 1",
        "no allocations of the host were recorded",
        "Record kernel objects (`leakpath collect ebpf slab`) or a heap profile.",
    ),
    "cuda_context": (
        "SELECT 1 FROM metrics WHERE metric = 'process_memory_used_bytes' AND process_id IS NOT NULL LIMIT 1",
        "no samples tell what each process holds of the device",
        "Sample NVML a process (`leakpath collect nvml`).",
    ),
    "fragmentation": (
        "SELECT 1 FROM fragmentation LIMIT 1",
        "no memory snapshot tells what the allocator reserves",
        "Take a memory snapshot with history.",
    ),
}
_NEEDS["autograd_graph"] = _NEEDS["kv_cache"]


@dataclass(frozen=True, slots=True)
class JudgedCauses:
    """Rows of `root_causes` and `root_cause_checks`, findings of causes of no suspect, and fragmented allocators."""

    rows: list[Row]
    checks: list[Row]
    findings: list[Row]
    fragmented: list[Fragmented]


def judge_causes(
    database: Database,
    suspects: Sequence[Row],
    causes: Mapping[int, Sequence[RootCause]],
    config: Config,
    paths: CallPathReader,
) -> JudgedCauses:
    """Every root cause, each rule over the whole capture asked once; `causes` are those of the suspects by number."""
    checked = [
        check(database, config.root_causes, paths)
        for check in (check_graph_pools, check_delayed_frees, check_redundant_caches)
    ]
    fragmented = fragmented_allocators(database, config.allocator)
    others = [*idle_context_causes(database), *(fragmentation_cause(state) for state in fragmented)]
    others += [row for check in checked for row in check.causes]
    rows = root_cause_rows(suspects, causes, others)
    found = [row for check in checked for row in check.findings]
    return JudgedCauses(rows, check_rows(database, rows, checked), found, fragmented)


def check_rows(database: Database, causes: Sequence[Mapping[str, Any]], checked: Sequence[Checked]) -> list[Row]:
    """One row a rule: how often it holds, else why it does not or what is missing to ask it."""
    held = Counter(row["root_cause"] for row in causes)
    known = {check.root_cause: check for check in checked}
    rows: list[Row] = []
    for rule in RULES:
        check = known.get(rule) or _asked(database, rule)
        is_held = held[rule] > 0
        rows.append(
            {
                "root_cause": rule,
                "cause_count": None if check.abstained_reason and not is_held else held[rule],
                "reason": None if is_held else check.reason,
                "abstained_reason": None if is_held else check.abstained_reason,
                "next_measurement": None if is_held else check.next_measurement,
            }
        )
    return rows


def _asked(database: Database, rule: str) -> Checked:
    """A rule over suspects or processes that does not hold: whether it could have been asked."""
    of_suspects = rule not in ("cuda_context", "fragmentation")
    checked = Checked(rule, reason="no growing suspect shows it" if of_suspects else "no process shows it")
    if rule == "unclassified":
        checked.reason = "no growing suspect is without a cause"
    missing = None
    if rule in _NEEDS:
        query, needed, checked.next_measurement = _NEEDS[rule]
        missing = None if database.rows(query) else needed
    if of_suspects and not missing and not database.rows("SELECT 1 FROM epochs LIMIT 1"):
        missing = "nothing repeats in the recording: no survivors could be judged"
    if missing:
        checked.reason, checked.abstained_reason = None, missing
    return checked
