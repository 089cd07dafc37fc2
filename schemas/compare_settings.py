"""Settings of `leakpath compare`."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.settings import setting as _setting


@dataclass(frozen=True, slots=True)
class CompareSettings:
    """When `leakpath compare` calls two captures comparable, and a change a change."""

    max_count_difference_ratio: float = _setting(
        0.05, "Difference in requests or epochs up to which totals are compared.", unit="ratio", minimum=0, maximum=1
    )
    max_token_difference_ratio: float = _setting(
        0.05, "Difference in tokens a request up to which captures are compared.", unit="ratio", minimum=0, maximum=1
    )
    min_change_ratio: float = _setting(
        0.05, "Change below which a quantity counts as unchanged.", unit="ratio", minimum=0
    )
    min_path_bytes: int = _setting(
        1024 * 1024, "Change of one call path's bytes below which it counts as unchanged.", unit="bytes", minimum=0
    )
    confidence: float = _setting(0.95, "Confidence of the intervals.", unit="ratio", minimum=0.5, maximum=0.999)
    min_epochs: int = _setting(
        6, "Fewer epochs (or requests) than this in a capture allow no interval.", unit="count", minimum=2
    )
    min_p95_count: int = _setting(
        20, "Fewer requests than this in a capture allow no judgement of their P95.", unit="count", minimum=2
    )
    gate_quantities: tuple[str, ...] = _setting(
        ("leak_growth", "peak_bytes", "latency_p95", "throughput"), "What `--gate` judges, as `comparison` names it."
    )
