"""The losses of runs, and the parts of what a large batch loses: plateau, path and overfitting.

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

import collections
import dataclasses
import json
import math
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tfbigbatch.config.overrides import compared
from tfbigbatch.errors import InputError
from tfbigbatch.reports.collect import Row
from tfbigbatch.utils.files import open_regular, write_text

FREQUENCY = "frequency"
CROSS_ENTROPY = "cross_entropy"
_BIAS = "output_bias"
# The part of a run over which the loss is averaged before it is compared: a single batch's crosses the line by chance.
_SMOOTHED = 0.02
T = TypeVar("T")
# The types of fields that are checked when they are read.
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "None": (type(None),)}


@dataclasses.dataclass(frozen=True)
class LossCurve:
    """A training loss by step.

    Attributes:
      steps: last step of each logged window, ascending.
      losses: mean loss over the window, in nats per token; NaN where it was not finite.
    """

    steps: Sequence[int]
    losses: Sequence[float]

    @property
    def lengths(self) -> list[int]:
        """The steps of each window."""
        return [step - before for before, step in zip((0, *self.steps), self.steps)]

    def smoothed(self) -> LossCurve:
        """Each loss as the mean of the windows that end in the last fiftieth of the run's steps before it."""
        lengths, means, begin = self.lengths, [], 0
        span = _SMOOTHED * sum(lengths)
        for end, step in enumerate(self.steps):
            while begin < end and self.steps[begin] <= step - span:
                begin += 1
            steps = lengths[begin : end + 1]
            means.append(sum(n * loss for n, loss in zip(steps, self.losses[begin:])) / sum(steps))
        return LossCurve(self.steps, means)

    def above(self, line: float) -> tuple[int, int | None]:
        """The steps at which the smoothed loss is above a line, and the first step below it; None for never.

        Below the entropy of the tokens' frequencies a model has learned more than these. A loss that is not finite is
        above every line.
        """
        smoothed = self.smoothed()
        above = sum(length for length, loss in zip(self.lengths, smoothed.losses) if not loss < line)
        return above, next((step for step, loss in zip(smoothed.steps, smoothed.losses) if loss < line), None)


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
        """The run as plain JSON; losses in four decimals."""
        losses = [round(loss, 4) if math.isfinite(loss) else None for loss in self.curve.losses]
        return {**vars(self), "curve": {"steps": list(self.curve.steps), "losses": losses}}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> RunLoss:
        """The reverse of `to_json`; KeyError, TypeError or ValueError where it is not of one."""
        steps = [int(step) for step in content["curve"]["steps"]]
        losses = [math.nan if loss is None else float(loss) for loss in content["curve"]["losses"]]
        if len(steps) != len(losses):
            raise ValueError(f"a curve of {len(steps)} steps and {len(losses)} losses")
        return cls(**{**content, "curve": LossCurve(steps, losses)})


# ---- Files of measurements, a JSON object in each line, that a command resumes from ------------


def read_lines(path: str, of_json: Callable[[dict[str, Any]], T], *, command: str) -> list[T]:
    """The measurements in a file that `write_lines` wrote; [] where there is none.

    Args:
      path: of the file.
      of_json: makes a measurement, a dataclass, of the content of a line.
      command: that wrote the file, for the error.

    Raises:
      ValueError: the file holds something else, or a number or text of another type than the dataclass declares.
    """
    if not os.path.exists(path):
        return []
    try:
        with open_regular(path, encoding="utf-8") as file:
            contents = [json.loads(line) for line in file]
        return [
            _checked(of_json({name: math.inf if value == "inf" else value for name, value in content.items()}))
            for content in contents
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read ({type(error).__name__}: {error}). Expected the file that tfbigbatch {command} "
            "wrote; name another, or move it away."
        ) from None


def write_lines(path: str, contents: Iterable[Mapping[str, Any]]) -> None:
    """Writes a line for each measurement; infinity as the string 'inf', since JSON has none."""
    rows = ({name: "inf" if value == math.inf else value for name, value in content.items()} for content in contents)
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def _checked(measurement: T) -> T:
    """The measurement, if its numbers and texts are of the types that it declares, and whole ones of 64 bits."""
    for field in dataclasses.fields(measurement):  # type: ignore[arg-type]
        names = str(field.type).split(" | ")
        value = getattr(measurement, field.name)
        if not set(names) <= _KINDS.keys():
            continue
        kinds = tuple(kind for name in names for kind in _KINDS[name])
        if type(value) not in kinds or (type(value) is int and not -(2**63) <= value < 2**63):
            raise TypeError(f"{field.name} is {value!r:.50}, expected {field.type}")
    return measurement


def cross_entropy_of(metrics: Mapping[str, Any]) -> float:
    """The nats among the metrics of an evaluation: 'cross_entropy', or the first name that ends so.

    Raises:
      ValueError: there is none.
    """
    found = [name for name in metrics if name.endswith(CROSS_ENTROPY)]
    if not found:
        raise InputError(f"metrics {', '.join(metrics)}: none is a {CROSS_ENTROPY}. The task gives no loss in nats.")
    return float(metrics[CROSS_ENTROPY if CROSS_ENTROPY in found else found[0]])


# ---- The parts --------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Parts:
    """The parts of a row's loss above the small batch's, in nats; see the module.

    Attributes:
      plateau: None where no run with the other bias tells it; it is then in the path.
      path, overfitting: the other parts.
    """

    plateau: float | None
    path: float
    overfitting: float

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return (self.plateau or 0.0) + self.path + self.overfitting


def parts_by_row(runs: Sequence[RunLoss], baseline: str) -> dict[str, Parts]:
    """The parts of each row against the small batch, by name; without the small batch itself.

    Args:
      runs: of one sweep.
      baseline: the row of the small batch; its twin is the small batch of the rows with the other bias.
    """
    first = {run.row: run for run in reversed(runs)}
    losses = {name: mean_losses(runs, name) for name in first}
    smalls = {first[name].bias: name for name in (first[baseline].twin, baseline) if name in first}
    found = {}
    for name in dict.fromkeys(run.row for run in runs):
        small = smalls.get(first[name].bias)
        # Without a small batch of the same bias there is nothing to compare with.
        if small is None or name == small:
            continue
        (fit, held_out), (small_fit, small_held_out) = losses[name], losses[small]
        overfitting = (held_out - fit) - (small_held_out - small_fit)
        twin, small_twin = (losses.get(first[each].twin or "") for each in (name, small))
        if first[name].bias == FREQUENCY or twin is None or small_twin is None:
            found[name] = Parts(None, fit - small_fit, overfitting)
        else:
            plateau = (fit - twin[0]) - (small_fit - small_twin[0])
            found[name] = Parts(plateau, twin[0] - small_twin[0], overfitting)
    return found


def mean_losses(runs: Iterable[RunLoss], row: str) -> tuple[float, float]:
    """T and V of a row, the means over its seeds."""
    found = [run for run in runs if run.row == row]
    return statistics.fmean(run.train for run in found), statistics.fmean(run.held_out for run in found)


# ---- Rows and their twins ---------------------------------------------------------------------


class NamedRow(NamedTuple):
    """A row of a report.

    Attributes:
      row: as collected.
      name: unique; with the batch size where several rows have one name.
      twin: the name of a row that differs in its output bias only, or in its learning rate too where both were tuned;
        None for none.
    """

    row: Row
    name: str
    twin: str | None


def named(rows: Sequence[Row]) -> list[NamedRow]:
    """The rows with unique names and their twins."""
    counts = collections.Counter(row.name for row in rows)
    names = [row.name if counts[row.name] == 1 else f"{row.name} at {row.batch_size:,}" for row in rows]
    biases = [row.config["model"].get(_BIAS) for row in rows]
    rates = [row.config.get("schedule", {}).get("learning_rate") for row in rows]
    keys = [_without_bias_and_rate(row.config) for row in rows]
    found = []
    for number, row in enumerate(rows):
        others = [
            (rates[other] != rates[number], biases[other] != FREQUENCY, other)
            for other in range(len(rows))
            if keys[other] == keys[number] and biases[other] != biases[number]
        ]
        found.append(NamedRow(row, names[number], names[min(others)[-1]] if others else None))
    return found


def _without_bias_and_rate(config: Mapping[str, Any]) -> str:
    """A text that is equal for configs that differ in seed, output bias and learning rate only."""
    left_out = {
        "seed": None,
        "model": {**config["model"], _BIAS: None},
        "schedule": {**config.get("schedule", {}), "learning_rate": None},
    }
    return json.dumps({**compared(config), **left_out}, sort_keys=True)
