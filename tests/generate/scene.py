"""What a scenario hands over: recordings, and the truth about what they keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.generate.allocator import KIB, MIB, Tensor
from tests.generate.recording import Recording

Address = tuple[str | None, int, int]
"""Recording (its folder's name), device, address."""


@dataclass(slots=True)
class Kept:
    """Tensors that live at the end, on purpose. `epochs` are those they were allocated in."""

    name: str
    tensors: list[Tensor] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    folder: str | None = None
    attribute: str | None = None

    def add(self, run: Recording, *tensors: Tensor) -> None:
        """Note tensors as kept from now on."""
        self.tensors += tensors
        self.epochs += [run.epoch] * len(tensors)

    @property
    def addresses(self) -> set[Address]:
        return {(self.folder, t.device, t.address) for t in self.tensors}

    @property
    def requested(self) -> int:
        return sum(t.requested for t in self.tensors)

    @property
    def rounded(self) -> int:
        return sum(t.rounded for t in self.tensors)


@dataclass(slots=True)
class Scene:
    """Recordings by folder name ("" for the capture itself), planted leaks, and what is kept with good reason."""

    recordings: dict[str, Recording]
    leaks: list[Kept] = field(default_factory=list)
    benign: list[Kept] = field(default_factory=list)
    lost: float = 0.0

    def write(self, folder: Path) -> Path:
        """Write the capture's files."""
        for name, run in self.recordings.items():
            run.write(folder / name if name else folder, lost=self.lost)
        return folder


Scenario = Callable[[int], Scene]


class Server:
    """The background every scenario shares: weights, a workspace of the first request, and churn."""

    def __init__(self, run: Recording, *, churn: int = 8, device: int = 0) -> None:
        self.run, self.churn, self.device = run, churn, device
        self.weights = Kept("weights")
        self.workspace = Kept("workspace")
        for layer in range(6):
            for part in ("q_proj", "o_proj", "mlp"):
                size = run.random.choice((512 * KIB, 2 * MIB, 4 * MIB)) + layer * KIB
                self.weights.add(run, run.alloc(size, "build", f"Module.to:{layer + 1}", part, device=device))
        self._carried: Tensor | None = None

    def work(self, *, around: Callable[[], None] | None = None) -> None:
        """One request's passing tensors; `around` runs while they live."""
        run, random = self.run, self.run.random
        if not self.workspace.tensors:
            self.workspace.add(run, run.alloc(32 * MIB, "serve", "forward", "linear", device=self.device))
        passing = [
            run.alloc(random.randrange(64 * KIB, 24 * MIB), "serve", "forward", name, device=self.device)
            for name in random.choices(("linear", "attention", "softmax", "norm"), k=self.churn)
        ]
        if around:
            around()
        random.shuffle(passing)
        run.free(*passing)
        # what the next request frees (a last batch, a last output) outlives its own request by one
        carried = run.alloc(random.randrange(KIB, 32 * KIB), "serve", "last_output", device=self.device)
        if self._carried:
            run.free(self._carried)
        self._carried = carried
