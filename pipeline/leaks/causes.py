"""A root cause as a rule answers it, with what speaks for and against."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class RootCause:
    """One rule's answer; `confidence` 0 to 1 by the share of its evidence that holds."""

    name: str
    confidence: float
    evidence_for: list[str]
    advice: str
    next_measurement: str
    evidence_against: list[str] = field(default_factory=list)


class Evidence:
    """What speaks for a cause and against it, as sentences."""

    def __init__(self) -> None:
        self.supports: list[str] = []
        self.contradicts: list[str] = []

    def add(self, holds: bool, supporting: str, contradicting: str) -> None:
        """Note one of the two sentences; an empty one is left out."""
        sentence, side = (supporting, self.supports) if holds else (contradicting, self.contradicts)
        if sentence:
            side.append(sentence)

    @property
    def confidence(self) -> float:
        """Share of the sentences that speak for it, by the rule of succession: never 0 nor 1."""
        return (len(self.supports) + 1) / (len(self.supports) + len(self.contradicts) + 2)

    def cause(self, name: str, advice: str, next_measurement: str) -> RootCause:
        """The cause with this evidence."""
        return RootCause(name, self.confidence, self.supports, advice, next_measurement, self.contradicts)
