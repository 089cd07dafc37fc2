"""What of `hotspots` a person should read: work done again, copies and casts, float operands, rounding."""

from __future__ import annotations

from typing import Any

from pipeline.database import Database
from pipeline.wording import bytes_text, evidence_text, seconds_text
from schemas.config import HotspotSettings

Row = dict[str, Any]
_COPY_ADVICE = (
    "Keep tensors in the layout and type that the next operation reads: drop .contiguous(), .transpose() and .to() on"
    " the way, cast weights once at load, and fuse what is left (torch.compile)."
)


def hotspot_findings(database: Database, settings: HotspotSettings) -> list[Row]:
    """Findings of what `hotspots_made` holds: calls that rise with the position, copies and casts, rounding."""
    return [
        *_recomputed(database),
        *_copied(database, settings),
        *_wide(database, settings),
        *_rounded(database, settings),
    ]


def _recomputed(database: Database) -> list[Row]:
    rows = database.rows(
        "SELECT hotspot_id, name, calls_per_token_early, calls_per_token_late, rise_p_value, count(*) OVER (),"
        " process_id FROM hotspots_made WHERE hotspot_kind = 'recomputation' AND abstained_reason IS NULL"
        " ORDER BY calls_per_token_late - calls_per_token_early DESC, hotspot_id LIMIT 1"
    )
    return [
        {
            "finding_kind": "hotspot",
            "severity": "warning",
            "confidence": 1 - p_value,
            "title": f"Work is done again for earlier tokens: {name} is called {early:.3g} times a token at first and"
            f" {late:.3g} times at the last positions (process {process}"
            + (f", and {count - 1:,} more such" if count > 1 else "")
            + ")",
            "evidence": evidence_text(("hotspots", f"hotspot_kind = 'recomputation' AND hotspot_id >= {number}")),
            "advice": "Cache what does not change with the position: rotary tables past the trained length, masks.",
        }
        for number, name, early, late, p_value, count, process in rows
    ]


def _copied(database: Database, settings: HotspotSettings) -> list[Row]:
    rows = database.rows(
        "SELECT process_id, device_index, sum(self_ratio), sum(self_amount),"
        " coalesce(max(self_ratio) FILTER (name = 'layout_copy'), 0),"
        " coalesce(max(self_ratio) FILTER (name = 'cast'), 0) FROM hotspots_made"
        " WHERE hotspot_kind = 'gpu_share' AND name IN ('layout_copy', 'cast') GROUP BY ALL HAVING sum(self_ratio) >= ?"
        " ORDER BY 4 DESC, 1, 2 LIMIT 4",
        [settings.copy_min_ratio],
    )
    return [
        {
            "finding_kind": "hotspot",
            "severity": "info",
            "title": f"{ratio:.0%} of the device's busy time{_place(process, device)} goes to copies between layouts"
            f" ({layout:.0%}) and types ({cast:.0%}): {seconds_text(amount / 1e9)}",
            "evidence": evidence_text(("hotspots", "hotspot_kind = 'gpu_share' AND name IN ('layout_copy', 'cast')")),
            "advice": _COPY_ADVICE,
        }
        for process, device, ratio, amount, layout, cast in rows
    ]


def _wide(database: Database, settings: HotspotSettings) -> list[Row]:
    """Operands in float where the matrix products of the process are in half precision."""
    rows = database.rows(
        "SELECT f.process_id, f.self, f.operator, f.self / a.bytes, h.name FROM hot_operands AS f"
        " JOIN (SELECT process_id, sum(self)::DOUBLE AS bytes FROM hot_operands GROUP BY process_id) AS a"
        " ON a.process_id IS NOT DISTINCT FROM f.process_id"
        " JOIN hot_operands AS h ON h.process_id IS NOT DISTINCT FROM f.process_id"
        " WHERE f.name = 'float' AND regexp_matches(h.name, '(?i)half|float16') AND f.self >= ? * a.bytes"
        " AND h.product_bytes > 2 * coalesce(f.product_bytes, 0) ORDER BY f.self DESC, f.process_id, h.name LIMIT 4",
        [settings.float_min_ratio],
    )
    return [
        {
            "finding_kind": "hotspot",
            "severity": "info",
            "bytes": read // 2,
            "title": f"The model is in {kind.rpartition('::')[2]}, but {ratio:.0%} of what operators read"
            f"{_place(process, None)} is in float ({bytes_text(read)}, most of it by {operator})",
            "evidence": evidence_text(("hotspots", "hotspot_kind = 'operand_type'")),
            "advice": "Half of these bytes would do: find what makes float tensors (a default dtype, a constant,"
            " .float() in a norm or rotary embedding) and keep them only where the accuracy needs it.",
        }
        for process, read, operator, ratio, kind in rows
    ]


def _rounded(database: Database, settings: HotspotSettings) -> list[Row]:
    rows = database.rows(
        "SELECT process_id, device_index, sum(self_amount), sum(total_amount) FROM hotspots_made"
        " WHERE hotspot_kind = 'rounding' AND abstained_reason IS NULL GROUP BY ALL"
        " HAVING sum(self_amount) >= ? AND sum(self_amount) >= ? * sum(total_amount) ORDER BY 3 DESC, 1, 2 LIMIT 4",
        [settings.rounding_min_bytes, settings.rounding_min_ratio],
    )
    return [
        {
            "finding_kind": "hotspot",
            "severity": "info",
            "bytes": lost,
            "title": f"Rounding takes {bytes_text(lost)} of {bytes_text(held)} at the peak{_place(process, device)}",
            "evidence": evidence_text(("hotspots", "hotspot_kind = 'rounding'")),
            "advice": "Join many small tensors into few, or ask for sizes just below a multiple of 512 bytes (2 MiB for"
            " large ones); roundup_power2_divisions in PYTORCH_ALLOC_CONF adds to it.",
        }
        for process, device, lost, held in rows
    ]


def _place(process: int | None, device: int | None) -> str:
    named = [f"process {process}"] if process is not None else []
    named += [f"device {device}"] if device is not None else []
    return f" of {', '.join(named)}" if named else ""
