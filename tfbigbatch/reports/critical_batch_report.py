"""Table and figure of critical batches measured by branching."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence

from tfbigbatch.reports import figure_style
from tfbigbatch.reports.table import Table
from tfbigbatch.scaling.critical_batch import CriticalBatch, critical_batch


@dataclasses.dataclass(frozen=True)
class Branch:
    """A branch that ended.

    Attributes:
      step, examples, epoch, learning_rate: of its `BranchPoint`.
      trained: examples of the branch.
      batch_size, seed: its own.
      loss: on the held-out examples at its end, in nats; infinity where it diverged.
      rule: of its learning rate.
      run: fingerprint of the run that it begins from.
    """

    step: int
    examples: int
    epoch: float
    learning_rate: float
    trained: int
    batch_size: int
    seed: int
    loss: float
    rule: str = "sqrt"
    run: str = ""


@dataclasses.dataclass(frozen=True)
class Point:
    """The measurements at one checkpoint.

    Attributes:
      branches: from it.
      critical: from their losses.
    """

    branches: Sequence[Branch]
    critical: CriticalBatch

    @property
    def first(self) -> Branch:
        """A branch, for what all have in common."""
        return self.branches[0]


def points_of(measured: Iterable[Branch], tolerance: float) -> list[Point]:
    """The checkpoints, in order; those with whole branches of two batch sizes or more, each at the same seeds.

    Args:
      measured: of one run.
      tolerance: of the loss, in nats.
    """
    branches: dict[int, list[Branch]] = {}
    for each in measured:
        branches.setdefault(each.step, []).append(each)
    found = []
    for _, own in sorted(branches.items()):
        by_batch: dict[int, dict[int, float]] = {}
        for each in own:
            by_batch.setdefault(each.batch_size, {})[each.seed] = each.loss
        smallest = by_batch[min(by_batch)]
        whole = {size: losses for size, losses in by_batch.items() if losses.keys() == smallest.keys()}
        if len(whole) < 2 or not all(map(math.isfinite, smallest.values())):
            continue
        losses = {size: [of[seed] for seed in sorted(smallest)] for size, of in whole.items()}
        kept = [each for each in own if each.batch_size in whole]
        found.append(Point(kept, critical_batch(losses, tolerance=tolerance)))
    return found


def table(points: Sequence[Point]) -> Table:
    """A row for each checkpoint: the mean losses by batch size, and both critical batches."""
    sizes = sorted({each.batch_size for point in points for each in point.branches})
    rows = []
    for point in points:
        losses = []
        for size in sizes:
            of_size = [each.loss for each in point.branches if each.batch_size == size]
            losses.append(f"{statistics.fmean(of_size):.3f}" if of_size else "")
        critical = point.critical
        rows.append(
            [
                f"{point.first.step:,}",
                f"{point.first.epoch:.3g}",
                f"{point.first.learning_rate:.3g}",
                *losses,
                _batch(critical.estimate, sizes),
                f"{_batch(critical.low, sizes)} to {_batch(critical.high, sizes)}",
            ]
        )
    headings = ["step", "epoch", "learning rate", *(f"loss at {size:,}" for size in sizes)]
    return Table([*headings, "critical batch", "90% interval"], rows)


def _batch(value: float, sizes: Sequence[int]) -> str:
    return f"> {sizes[-1]:,}" if math.isinf(value) else f"{value:,.0f}"


def figure(path: str, points: Sequence[Point], title: str, tolerance: float) -> None:
    """A PNG: the critical batch along training, and the loss above the smallest batch's by batch size.

    Raises:
      ValueError: matplotlib is not installed, or the file cannot be written.
    """
    with figure_style.figure(path, title, len(points), panels=2) as (_, [left, right]):
        if not points:
            return
        # What is beyond the largest branch is drawn at the top.
        top = 2.0 * max(each.batch_size for point in points for each in point.branches)
        epochs = [point.first.epoch for point in points]
        middle, low, high = (
            [min(getattr(point.critical, name), top) for point in points] for name in ("estimate", "low", "high")
        )
        errors = [[m - end for m, end in zip(middle, low)], [end - m for m, end in zip(middle, high)]]
        left.errorbar(epochs, middle, yerr=errors, marker="o", capsize=3, label="by branching, 90% interval")
        left.set_yscale("log", base=2)
        for point in points:
            excess = {size: each for size, each in sorted(point.critical.excess.items()) if math.isfinite(each)}
            right.plot(list(excess), list(excess.values()), marker="o", label=f"epoch {point.first.epoch:.3g}")
        right.axhline(tolerance, color="black", lw=0.8, ls="--", label="tolerance")
        right.set_xscale("log", base=2)
        labels = ("epoch of the checkpoint", "critical batch (examples)")
        more = ("batch of the branch (examples)", "loss above the smallest batch's (nats)")
        for axes, (x, y) in ((left, labels), (right, more)):
            axes.set_xlabel(x)
            axes.set_ylabel(y)
            axes.grid(alpha=0.3)
            axes.legend(frameon=False, fontsize=8)
