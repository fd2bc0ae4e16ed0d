"""The parts of what a large batch loses: plateau, path and overfitting, from the losses of runs.

T is a run's loss on training examples and V that on held-out ones, both of its last weights and without dropout. L is
a run at the large batch, S one at the small batch, of as many examples; L* and S* are the same runs with the output
bias at the log of the tokens' frequency, which spares them the unigram plateau. What L loses is

    V(L) - V(S) = plateau + path + overfitting
    plateau     = (T(L) - T(L*)) - (T(S) - T(S*))     what the bias gives back of the fit
    path        = T(L*) - T(S*)                       the fit that is missing without a plateau
    overfitting = (V(L) - T(L)) - (V(S) - T(S))       held-out loss above training loss

and the three add up to it exactly. Of a run that has the bias, L = L* and S = S*: its plateau is 0. Whether the path
is only too short, runs of twice and four times the steps at the same batch say, by their own paths.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfbigbatch.reports.loss_curve import LossCurve

FREQUENCY = "frequency"


@dataclasses.dataclass(frozen=True)
class RunLoss:
    """The losses of one run, as a line of a file keeps them.

    Attributes:
      row, batch_size, seed: which run it is.
      steps: of the run.
      bias: `model.output_bias`; None for a task without.
      twin: the row that differs in its output bias only; None for none.
      line: the loss of a constant prediction, in nats per token; None where it is not known.
      curve: the training loss.
      train, held_out: T and V, in nats.
    """

    row: str
    batch_size: int
    seed: int
    steps: int
    bias: str | None
    twin: str | None
    line: float | None
    curve: LossCurve
    train: float
    held_out: float

    def to_json(self) -> dict[str, Any]:
        """As plain JSON; losses in four decimals."""
        curve = {"steps": list(self.curve.steps), "losses": [_rounded(loss) for loss in self.curve.losses]}
        return {**vars(self), "curve": curve}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> RunLoss:
        """The reverse of `to_json`; KeyError, TypeError or ValueError where it is not of one."""
        steps = [int(step) for step in content["curve"]["steps"]]
        losses = [float("nan") if loss is None else float(loss) for loss in content["curve"]["losses"]]
        fields = {field.name: content[field.name] for field in dataclasses.fields(cls)}
        if len(steps) != len(losses):
            raise ValueError(f"a curve of {len(steps)} steps and {len(losses)} losses")
        return cls(**{**fields, "curve": LossCurve(steps, losses)})


@dataclasses.dataclass(frozen=True)
class Losses:
    """T and V of a row, the means over its seeds."""

    train: float
    held_out: float

    @property
    def gap(self) -> float:
        return self.held_out - self.train


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a row loses against the small batch, in nats; see the module.

    Attributes:
      plateau: None where no run with the other bias tells it; it is then in the path.
      path, overfitting: the other parts.
    """

    plateau: float | None
    path: float
    overfitting: float

    @property
    def total(self) -> float:
        return (self.plateau or 0.0) + self.path + self.overfitting


def decompose(run: Losses, small: Losses, run_twin: Losses | None = None, small_twin: Losses | None = None) -> Parts:
    """The parts of V(run) - V(small).

    Args:
      run: L.
      small: S.
      run_twin, small_twin: L* and S*; None for runs that have the bias themselves, or where there are none.
    """
    overfitting = run.gap - small.gap
    if run_twin is None or small_twin is None:
        return Parts(None, run.train - small.train, overfitting)
    plateau = (run.train - run_twin.train) - (small.train - small_twin.train)
    return Parts(plateau, run_twin.train - small_twin.train, overfitting)


def parts_of(runs: Sequence[RunLoss], baseline: str) -> dict[str, Parts]:
    """The parts of each row against the small batch, by name; without the small batch itself.

    Args:
      runs: of one study.
      baseline: the row of the small batch; its twin is the small batch of the rows with the other bias.
    """
    first = {run.row: run for run in reversed(runs)}
    losses = {name: losses_of(runs, name) for name in first}
    smalls = {first[name].bias: name for name in (first[baseline].twin, baseline) if name in first}
    found = {}
    for name in dict.fromkeys(run.row for run in runs):
        run, small = first[name], smalls.get(first[name].bias)
        # Without a small batch of the same bias there is nothing to compare with.
        if small is None or name == small:
            continue
        twins: list[Losses | None] = [None, None]
        if run.bias != FREQUENCY:
            twins = [losses.get(first[each].twin or "") for each in (name, small)]
        found[name] = decompose(losses[name], losses[small], *twins)
    return found


def losses_of(runs: Iterable[RunLoss], row: str) -> Losses:
    """T and V of a row, the means over its seeds."""
    found = [run for run in runs if run.row == row]
    return Losses(statistics.fmean(run.train for run in found), statistics.fmean(run.held_out for run in found))


def _rounded(loss: float) -> float | None:
    return round(loss, 4) if loss == loss else None
