"""Quick runs: an experiment of any size, on the user's own data, in a few minutes of a laptop."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import ml_collections

from tfbigbatch import schedules, tasks
from tfbigbatch.errors import InputError
from tfbigbatch.experiment.changes import flat, hold_tuned_batch
from tfbigbatch.experiment.fields import new, phases
from tfbigbatch.experiment.moments import optimizer_to_scale
from tfbigbatch.experiment.quick_data import Data
from tfbigbatch.scaling.recipe import RULES, Recipe
from tfbigbatch.utils.home import expanded

# Batches tuned up to this size are kept; larger ones become _BATCH.
_LARGEST_BATCH, _BATCH = 128, 32
# Of a few examples, more than this many epochs are run only to make as many steps.
_EPOCHS, _FEWEST_STEPS = 5, 20
# Of the run that is warm-up, where the recipe has one: less would be no step, more would leave nothing to train.
_WARMUP = (0.05, 0.2)
_LOGS = 20
_INSTRUMENTS = ("noise_scale", "sharpness", "layers")
_LINE = 110
# How the banner groups the fields.
_KINDS = (("batch_size", "accumulation", "replicas"), ("schedule.", "duration"), ("model.", "data."))


def quick(config: ml_collections.ConfigDict, *, data_dir: str | None = None, keep: Collection[str] = ()) -> list[str]:
    """Changes `config` to a quick run: real training on the data, at sizes for a few minutes of two CPU cores.

    The task makes the model small (`Task.quick_model`). The batch becomes that of the tuned recipe, 32 where that is
    above 128, and at most a quarter of the training set. The peak learning rate follows by the schedule's rule, by the
    square root where it has none. The run has 5 epochs, or less where these are more than `Task.quick_examples`;
    warm-up and decay keep their fractions of it. Of a run in phases the first is kept.

    Args:
      config: of the experiment; changed in place.
      data_dir: folder of the task's data; the task reads it, for the size of the training set.
      keep: dotted names of fields that keep their values, such as those that the user gave; the others follow them.

    Returns:
      Lines for the banner with all changes.

    Raises:
      ValueError: the data cannot be read, or a duration or the rule of the config.
    """
    _check(config)
    hold_tuned_batch(config)
    data_dir = expanded(data_dir)
    before = config.to_dict()
    change = _Changes(config, keep)
    _one_phase(config, change)
    task = tasks.get(config.task)
    change.fields("model", task.quick_model(config.model.to_dict()))
    change.fields("data", task.quick_data(config.data.to_dict(), data_dir))
    data = Data(config, data_dir)
    batch_size = _batch_size(config, change, data)
    dataset_size = data.examples(batch_size)
    old = _Old(config, dataset_size)
    change.set("accumulation_steps", 1)
    change.set("batch_size", batch_size)
    _learning_rate(config, change)
    steps = _steps(config, change, old, data)
    change.set("duration", f"{steps} steps")
    _schedule(config, change, old, steps)
    _intervals(config, change, steps, data.evaluations(config.evaluate_on, steps * batch_size))
    _devices(config, change)
    lines = _lines(before, config.to_dict())
    about = f"{steps * config.batch_size / dataset_size:.3g} epochs of {dataset_size:,} examples"
    return [*lines, f"quick      a first try of {about}: its result says nothing of the experiment's"]


def _check(config: ml_collections.ConfigDict) -> None:
    """Checks what the user may have given; the rest of the config is changed, and checked with the run."""
    from tfbigbatch.experiment.checks import check_fields, check_optimizer

    check_fields(config)
    check_optimizer(config)
    for phase in phases(config):
        for name, value in (("batch_size", phase.batch_size), ("schedule.batch_size", phase.schedule.batch_size)):
            if value < 1:
                raise InputError(f"{name}={value}: expected 1 or more.")


class _Changes:
    """Sets fields of a config, but for those that keep their values."""

    def __init__(self, config: ml_collections.ConfigDict, keep: Collection[str]) -> None:
        self._config, self._keep = config, set(keep)

    def keeps(self, *names: str) -> bool:
        """Whether one of the fields keeps its value."""
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


class _Old:
    """The durations of the experiment before it was made quick."""

    def __init__(self, config: ml_collections.ConfigDict, dataset_size: int) -> None:
        self.dataset_size = dataset_size
        self.batch_size: int = config.batch_size
        schedule = config.schedule
        if schedule.rule not in RULES:
            raise InputError(f"schedule.rule={schedule.rule!r} is unknown; expected one of {', '.join(RULES)}.")
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
        """Of the whole run."""
        return min(1.0, examples / max(1.0, self.total))


def _one_phase(config: ml_collections.ConfigDict, change: _Changes) -> None:
    first = phases(config)[0]
    for name in flat(dict(config.phases[0])) if config.phases else ():
        holder, _, last = name.rpartition(".")
        change.set(name, (first[holder] if holder else first)[last])
    change.set("phases", ())
    # As phases: the batch that the run begins with stays.
    for name, value in new(config.task).ramp.items() if config.ramp.name != "none" else ():
        change.set(f"ramp.{name}", value)


def _batch_size(config: ml_collections.ConfigDict, change: _Changes, data: Data) -> int:
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


def _steps(config: ml_collections.ConfigDict, change: _Changes, old: _Old, data: Data) -> int:
    """Steps of the run, at most as many examples as the experiment's."""
    batch_size, dataset_size = config.batch_size, old.dataset_size
    if change.keeps("duration"):
        return max(1, schedules.to_steps(config.duration, batch_size=batch_size, dataset_size=dataset_size))
    few = max(_EPOCHS * dataset_size, _FEWEST_STEPS * batch_size)
    return max(1, round(min(old.total, few, data.affordable(batch_size)) / batch_size))


def _schedule(config: ml_collections.ConfigDict, change: _Changes, old: _Old, steps: int) -> None:
    """Warm-up and decay at their fractions of the run."""
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


def _intervals(config: ml_collections.ConfigDict, change: _Changes, steps: int, evaluations: int) -> None:
    every = f"{-(-steps // evaluations)} steps"
    change.set("evaluate_every", every)
    change.set("checkpoint_every", every)
    change.set("log_every", f"{max(1, steps // _LOGS)} steps")
    change.set("steps_per_execution", 1)
    for name in _INSTRUMENTS:
        if config.instruments[name].enabled:
            change.set(f"instruments.{name}.every", every)


def _devices(config: ml_collections.ConfigDict, change: _Changes) -> None:
    """What a laptop's memory and processor take."""
    batch_size = config.batch_size
    change.set("evaluation_batch_size", min(config.evaluation_batch_size, 2 * batch_size))
    if config.simulated_replicas:
        # Adasum and local steps combine replicas: with one there is nothing to try.
        combines = config.optimizer.get("adasum") or config.optimizer.get("local_steps")
        change.set("simulated_replicas", 2 if combines and batch_size % 2 == 0 else 0)
    # A CPU without instructions for the others is slow in them, and the compiler takes longer than the run.
    change.set("mixed_precision", "float32")
    change.set("jit_compile", False)
    if config.date.enabled:
        _probe(config.date, "date", change, batch_size)
    if any(config.instruments[name].enabled for name in _INSTRUMENTS):
        _probe(config.instruments.probe, "instruments.probe", change, batch_size)


def _probe(fields: ml_collections.ConfigDict, name: str, change: _Changes, batch_size: int) -> None:
    change.set(f"{name}.micro_batch_size", min(fields.micro_batch_size, batch_size))
    change.set(f"{name}.micro_batches", min(fields.micro_batches, 4))


def _lines(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """All differences, several to a line, those of a kind together."""
    old, new = flat(before), flat(after)
    changed = [name for name in new if name not in old or old[name] != new[name]]
    lines: list[str] = []
    for kind in range(len(_KINDS) + 1):
        line = ""
        for name in changed:
            if _kind(name) != kind:
                continue
            change = f"{name} {_shown(old.get(name, 'none'))} -> {_shown(new[name])}"
            if line and len(line) + len(change) > _LINE:
                lines.append(line)
                line = ""
            line = f"{line}, {change}" if line else f"quick      {change}"
        lines += [line] if line else []
    return lines


def _kind(name: str) -> int:
    return next((index for index, kind in enumerate(_KINDS) if any(part in name for part in kind)), len(_KINDS))


def _shown(value: Any) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], dict):
        return f"{len(value)}, the first"
    if isinstance(value, (tuple, list)):
        return " ".join(map(_shown, value)) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value) or "none"
