"""Quick runs: an experiment of any size made small, on the user's data or on made-up data."""

from __future__ import annotations

import dataclasses
import os
import textwrap
from collections.abc import Callable, Collection
from typing import Any

import ml_collections

from tfbigbatch import schedules, tasks
from tfbigbatch.errors import InputError
from tfbigbatch.experiment.checks import check_fields, check_plan
from tfbigbatch.experiment.fields import new, phases
from tfbigbatch.experiment.moments import optimizer_to_scale
from tfbigbatch.experiment.overrides import differences, flat, hold_tuned_batch
from tfbigbatch.scaling.recipe import RULES, Recipe
from tfbigbatch.utils.home import expanded

# Batches tuned up to this size are kept; larger ones become _BATCH.
_LARGEST_BATCH, _BATCH = 128, 32
# Of a few examples, more than this many epochs are run only to make as many steps.
_EPOCHS, _FEWEST_STEPS = 5, 20
# Of a task that does not say how many are quick.
_EXAMPLES = 5_000
# Made-up data: examples, and the steps of a run.
_MADE_UP, MADE_UP_STEPS = 64, 8
# Of the run that is warm-up, where the recipe has one: less would be no step, more would leave nothing to train.
_WARMUP = (0.05, 0.2)
_LOGS = 20
_INSTRUMENTS = ("noise_scale", "sharpness", "layers")
_LINE = 120


def quick(config: ml_collections.ConfigDict, *, data_dir: str | None = None, keep: Collection[str] = ()) -> list[str]:
    """Changes `config` to a small run: minutes of two CPU cores on real data, or 8 steps on made-up data.

    The task makes the model small: `Task.quick_model`, or `smoke_model` for made-up data. The batch becomes that of the
    tuned recipe, 32 where that is above 128, and at most a quarter of the training set. The peak learning rate follows
    by the schedule's rule, by the square root where it has none. The run has 5 epochs, or less where these are more
    than `Task.quick_examples`; warm-up and decay keep their fractions of it. Of phases two are left, with the fields of
    the first, and of a ramp one larger batch.

    Args:
      config: of the experiment; changed in place.
      data_dir: folder of the task's data; the task reads it, for the size of the training set. None for made-up data.
      keep: dotted names of fields that keep their values, such as those that the user gave; the others follow them.

    Returns:
      Lines for the banner with all changes.

    Raises:
      ValueError: the data cannot be read, or a duration or the rule of the config.
    """
    check_fields(config)
    check_plan(config)
    hold_tuned_batch(config)
    data_dir = expanded(data_dir)
    before = config.to_dict()
    change = _Changes(config, keep)
    count = min(2, len(config.phases)) or 1
    _first_phase(config, change)
    data = _data(config, change, data_dir)
    batch_size = _batch_size(config, change, data)
    old = _Old(config, data.examples(batch_size))
    change.set("accumulation_steps", min(2, config.accumulation_steps) if batch_size % 4 == 0 else 1)
    change.set("batch_size", batch_size)
    _learning_rate(config, change)
    steps = max(1, _steps(config, change, old, data.affordable) // count)
    change.set("duration", f"{steps} steps")
    _schedule(config, change, old, steps)
    if count > 1:
        change.set("phases", tuple({"duration": f"{steps} steps"} for _ in range(count)))
    if config.ramp.name != "none":
        _ramp(config, change, steps)
    # One evaluation where several would take longer than the training.
    several = 3 if data.affordable else 2
    _intervals(config, change, steps * count, several if several * data.held_out <= steps * config.batch_size else 1)
    _devices(config, change, made_up=data_dir is None)
    changes = ", ".join(differences(before, config.to_dict()))
    about = f"{steps * count} steps, {steps * count * config.batch_size / old.dataset_size:.3g} epochs of {data.name}"
    lines = [*textwrap.wrap(changes, _LINE, break_long_words=False), f"a first try of {about}: its result says little"]
    return [f"quick      {line}" for line in lines]


class _Changes:
    """Sets fields of a config, but for those that keep their values."""

    def __init__(self, config: ml_collections.ConfigDict, keep: Collection[str]) -> None:
        self._config, self._keep = config, set(keep)

    def keeps(self, *names: str) -> bool:
        """True if one of the fields keeps its value."""
        return not self._keep.isdisjoint(names)

    def set(self, name: str, value: Any) -> None:
        holder, _, last = name.rpartition(".")
        if name not in self._keep:
            (self._config[holder] if holder else self._config)[last] = value

    def fields(self, holder: str, values: dict[str, Any]) -> None:
        """Sets those of the fields that `holder` has."""
        for name, value in values.items():
            if name in self._config[holder]:
                self.set(f"{holder}.{name}", value)


@dataclasses.dataclass(frozen=True)
class _Data:
    """The data of a quick run.

    Attributes:
      name: for the banner.
      examples: function of a batch size that returns the training examples in an epoch.
      affordable: examples that a laptop has time for.
      held_out: examples of the held-out split.
    """

    name: str
    examples: Callable[[int], int]
    affordable: int
    held_out: int


def _data(config: ml_collections.ConfigDict, change: _Changes, data_dir: str | None) -> _Data:
    """Makes the model and the fields of the data small, and reads the size of the data."""
    kind = tasks.get(config.task)
    if data_dir is None:
        change.fields("model", kind.smoke_model(config.model.to_dict()))
        return _Data("made-up data", lambda batch_size: _MADE_UP, 0, 0)
    # Before TensorFlow is imported, which takes seconds.
    if "://" not in data_dir and not os.path.exists(data_dir):
        raise InputError(f"--data_dir={data_dir}: no such folder. Give the folder of the data of task {config.task}.")
    change.fields("model", kind.quick_model(config.model.to_dict()))
    change.fields("data", kind.quick_data(config.data.to_dict(), data_dir))
    model, data = config.model.to_dict(), config.data.to_dict()
    kind.check_data(data, data_dir)
    task = kind(model=model, data=data, data_dir=data_dir, use_fake_data=False)
    held_out = task.held_out(config.evaluate_on).evaluation_steps(1)
    return _Data(data_dir, task.train.examples_in_epoch, kind.quick_examples(model) or _EXAMPLES, held_out)


class _Old:
    """The durations of the experiment before it was made quick."""

    def __init__(self, config: ml_collections.ConfigDict, dataset_size: int) -> None:
        self.dataset_size = dataset_size
        self.batch_size: int = config.batch_size
        schedule = config.schedule
        longer = RULES[schedule.rule](config.batch_size / schedule.batch_size)[1]
        self.total = self.examples(config.duration)
        warmup = schedule.warmup_epochs * dataset_size
        if schedule.warmup:
            warmup = self.examples(schedule.warmup, schedule.batch_size)
        self.warmup = self.fraction(warmup * longer)

    def examples(self, duration: str, batch_size: int | None = None) -> float:
        """A duration in examples, without rounding to whole steps."""
        found = schedules.to_steps(duration, batch_size=1, dataset_size=self.dataset_size)
        return found * (batch_size or self.batch_size) if "step" in duration.lower() else found

    def fraction(self, examples: float) -> float:
        """The fraction of the run that examples are."""
        return min(1.0, examples / max(1.0, self.total))


def _first_phase(config: ml_collections.ConfigDict, change: _Changes) -> None:
    first = phases(config)[0]
    for name in flat(dict(config.phases[0])) if config.phases else ():
        holder, _, last = name.rpartition(".")
        change.set(name, (first[holder] if holder else first)[last])
    change.set("phases", ())


def _batch_size(config: ml_collections.ConfigDict, change: _Changes, data: _Data) -> int:
    if change.keeps("batch_size"):
        return int(config.batch_size)
    tuned = config.schedule.batch_size
    batch_size = min(config.batch_size, tuned if tuned <= _LARGEST_BATCH else _BATCH)
    quarter = max(1, data.examples(batch_size) // 4)
    return int(batch_size if batch_size <= quarter else 1 << quarter.bit_length() - 1)


def _learning_rate(config: ml_collections.ConfigDict, change: _Changes) -> None:
    """Scales the recipe to the batch, which becomes its own."""
    schedule = config.schedule
    if change.keeps("schedule.batch_size"):
        return
    rule = schedule.rule if schedule.rule != "none" else "sqrt"
    tuned = Recipe(schedule.batch_size, schedule.learning_rate, optimizer=optimizer_to_scale(config))
    scaled = tuned.at(config.batch_size, rule, moments=schedule.moments, weight_decay=schedule.weight_decay)
    with config.optimizer.unlocked(), config.optimizer.ignore_type():
        for name, value in scaled.optimizer.items():
            change.set(f"optimizer.{name}", value)
    change.set("schedule.learning_rate", float(f"{scaled.learning_rate:.4g}"))
    change.set("schedule.batch_size", config.batch_size)


def _steps(config: ml_collections.ConfigDict, change: _Changes, old: _Old, affordable: int) -> int:
    """Steps of the run: of a few epochs, of what is affordable, and no longer than the experiment's."""
    batch_size, dataset_size = config.batch_size, old.dataset_size
    if change.keeps("duration"):
        return schedules.to_steps(config.duration, batch_size=batch_size, dataset_size=dataset_size)
    if not affordable:
        return MADE_UP_STEPS
    few = max(_EPOCHS * dataset_size, _FEWEST_STEPS * batch_size)
    return max(1, round(min(old.total, few, affordable) / batch_size))


def _schedule(config: ml_collections.ConfigDict, change: _Changes, old: _Old, steps: int) -> None:
    """Sets warm-up and decay at their fractions of the run."""
    schedule = config.schedule
    warmup = 0
    if old.warmup and not change.keeps("schedule.warmup", "schedule.warmup_epochs"):
        shortest, longest = _WARMUP
        warmup = max(1, round(min(longest, max(shortest, old.warmup)) * steps))
        change.set("schedule.warmup_epochs", 0.0)
        change.set("schedule.warmup", f"{warmup} steps")

    def in_run(duration: str) -> int:
        return round(old.fraction(old.examples(duration)) * steps)

    used = {name for names in schedules.DECAYS.get(schedule.decay, ()) for name in names}
    if "start" in used and in_run(schedule.start):
        change.set("schedule.start", f"{in_run(schedule.start)} steps")
    if "every" in used:
        change.set("schedule.every", f"{max(1, in_run(schedule.every))} steps")
    if "boundaries" in used:
        boundaries: list[int] = []
        for duration in schedule.boundaries:
            # After the warm-up, and after one another.
            boundaries.append(max(in_run(duration), boundaries[-1] + 1 if boundaries else warmup + 1))
        change.set("schedule.boundaries", tuple(f"{step} steps" for step in boundaries))


def _ramp(config: ml_collections.ConfigDict, change: _Changes, steps: int) -> None:
    """Sets one larger batch, halfway; none for streams that carry state, which begin anew with an epoch only."""
    values = new(config.task).ramp.to_dict()
    if steps > 1 and not tasks.get(config.task).carries_state:
        values.update(name="growth", growth=((f"{steps // 2} steps", 2 * config.batch_size),))
    change.fields("ramp", values)


def _intervals(config: ml_collections.ConfigDict, change: _Changes, steps: int, evaluations: int) -> None:
    every = f"{-(-steps // evaluations)} steps"
    change.set("evaluate_every", every)
    change.set("checkpoint_every", every)
    change.set("log_every", f"{min(steps, max(2, steps // _LOGS))} steps")
    change.set("steps_per_execution", min(2, steps))
    for name in _INSTRUMENTS:
        if config.instruments[name].enabled:
            change.set(f"instruments.{name}.every", every)


def _devices(config: ml_collections.ConfigDict, change: _Changes, made_up: bool) -> None:
    """Sets what a laptop's memory and processor take."""
    batch_size = config.batch_size
    change.set("evaluation_batch_size", min(config.evaluation_batch_size, 2 * batch_size))
    # Made-up data is trained on all replicas, where they divide the batch.
    divides = config.simulated_replicas and batch_size % (config.simulated_replicas * config.accumulation_steps) == 0
    if config.simulated_replicas and not (made_up and divides):
        # Adasum and local steps combine replicas: with one there is nothing to try.
        combines = config.optimizer.get("adasum") or config.optimizer.get("local_steps")
        change.set("simulated_replicas", 2 if combines and batch_size % 2 == 0 else 0)
    # A CPU without instructions for the others is slow in them, and the compiler takes longer than the run.
    change.set("mixed_precision", "float32")
    change.set("jit_compile", False)
    measures = any(config.instruments[name].enabled for name in _INSTRUMENTS)
    probes = {"date": config.date} if config.date.enabled else {}
    for name, fields in {**probes, **({"instruments.probe": config.instruments.probe} if measures else {})}.items():
        change.set(f"{name}.micro_batch_size", min(fields.micro_batch_size, batch_size))
        change.set(f"{name}.micro_batches", min(fields.micro_batches, 4))
