"""Which attribute tells leaking epochs from the rest (Fisher's exact test, one-sided)."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from math import comb, log2
from typing import Any, NamedTuple

MAX_VALUES = 24
FIRST = "status"
ROUNDING = 1 + 1e-9


class Association(NamedTuple):
    """An attribute value against survival: counts of epochs, p-value, lift by the rule of succession.

    `adjusted_p_value` takes into account how many values were tried (`associations`).
    """

    attribute: str
    p_value: float
    lift: float
    leaking_with: int
    with_count: int
    leaking_without: int
    without_count: int
    adjusted_p_value: float = 1.0

    @property
    def is_perfect(self) -> bool:
        """Every epoch that has it keeps survivors and none without it does."""
        return self.leaking_with == self.with_count and self.leaking_without == 0

    def tells_apart(self, max_p_value: float) -> bool:
        """Whether it is perfect and no chance hit among the values that were tried."""
        return self.is_perfect and self.adjusted_p_value < max_p_value


def fisher_p_value(leaking_with: int, with_count: int, leaking_without: int, without_count: int) -> float:
    """Probability of at least so many leaking epochs with the attribute, margins fixed (hypergeometric tail)."""
    leaking, total = leaking_with + leaking_without, with_count + without_count
    ways = sum(
        comb(with_count, k) * comb(without_count, leaking - k)
        for k in range(leaking_with, min(with_count, leaking) + 1)
        if leaking - k <= without_count
    )
    return ways / comb(total, leaking)


def _bucket(value: float) -> str:
    if value < 1:
        return "0"
    power = int(log2(value))
    return f"{2**power}–{2 ** (power + 1) - 1}"


def scalar_attributes(text: str | None) -> dict[str, str]:
    """Texts, whole numbers and flags of a JSON object, as text; of anything else nothing."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(k)[:60]: str(v)[:60] for k, v in found.items() if isinstance(v, str | int | bool)}


def request_attributes(request: Mapping[str, Any]) -> dict[str, str]:
    """Attributes of one request as text: status, model, kind, rank, length buckets and the log's own keys."""
    found = {
        name: str(request[name])
        for name in ("status", "model", "request_kind", "rank")
        if request.get(name) is not None
    }
    for name in ("prompt_tokens", "output_tokens"):
        if request.get(name) is not None:
            found[name] = _bucket(request[name])
    return scalar_attributes(request.get("attributes")) | found


def least_p_value(with_count: int, without_count: int, leaking: int) -> float:
    """The lowest p-value that a value with these epochs can reach, whichever of all epochs leak."""
    most = min(with_count, leaking)
    return fisher_p_value(most, with_count, leaking - most, without_count)


def _adjusted(found: list[Association], tried: Sequence[tuple[str, float]]) -> list[Association]:
    """With p-values times the number of values that could have reached them (Tarone 1990).

    The status is the question that is asked first, and needs no correction; what else a request has is a search.
    `tried` has name and least possible p-value of each value, once for those that hold the same epochs.
    """
    least = sorted(p for name, p in tried if name != FIRST)
    return [
        a._replace(
            adjusted_p_value=a.p_value
            if a.attribute.startswith(f"{FIRST}=")
            else min(1.0, a.p_value * max(1, bisect_right(least, a.p_value * ROUNDING)))
        )
        for a in found
    ]


def associations(
    epochs: Iterable[int], leaking: set[int], attributes: Mapping[int, Mapping[str, str]]
) -> list[Association]:
    """Every attribute value that leaking epochs have more often than the rest, the most telling first.

    `attributes` maps an epoch to its attributes; epochs without any are left out. Attributes with
    more than MAX_VALUES values (ids) are left out. An epoch that lacks an attribute has none of its values.
    """
    known = [epoch for epoch in epochs if epoch in attributes]
    values: dict[str, dict[str, set[int]]] = {}
    for epoch in known:
        for name, value in attributes[epoch].items():
            values.setdefault(name, {}).setdefault(value, set()).add(epoch)
    all_known, found = set(known), list[Association]()
    leaks = len(all_known & leaking)
    tried: dict[frozenset[int], tuple[str, float]] = {}
    for name in sorted(values, key=lambda name: (name != FIRST, name)):
        by_value = values[name]
        if not 1 <= len(by_value) <= MAX_VALUES:
            continue
        for value, having in by_value.items():
            rest = all_known - having
            if not rest or not leaks:
                continue
            tried.setdefault(frozenset(having), (name, least_p_value(len(having), len(rest), leaks)))
            a, c = len(having & leaking), len(rest & leaking)
            if not a or a * len(rest) <= c * len(having):
                continue
            lift = ((a + 1) / (len(having) + 2)) / ((c + 1) / (len(rest) + 2))
            found.append(
                Association(
                    f"{name}={value}", fisher_p_value(a, len(having), c, len(rest)), lift, a, len(having), c, len(rest)
                )
            )
    return sorted(
        _adjusted(found, list(tried.values())),
        key=lambda f: (f.adjusted_p_value, f.p_value, not f.attribute.startswith(FIRST), -f.lift, f.attribute),
    )
