"""Quick runs: an experiment of any size made small, on the user's data or on made-up data."""

from __future__ import annotations

from collections.abc import Collection

import ml_collections

from tfbigbatch import tasks
from tfbigbatch.config.fields import RAMP
from tfbigbatch.config.overrides import hold_tuned_batch, holder_of, set_fields
from tfbigbatch.config.recipe import check_fields, check_plan, optimizer_to_scale, phases
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.utils.home import expanded

_BATCH = 16
MADE_UP_STEPS = 8
"""The steps of a run on made-up data."""
_STEPS = 40


def make_quick(
    config: ml_collections.ConfigDict, *, data_dir: str | None = None, keep: Collection[str] = ()
) -> list[str]:
    """Changes `config` to a small run: 40 steps of batch 16 on the data, or 8 steps on made-up data.

    The task makes the model small: `Task.quick_model`, or `smoke_model` for made-up data. The peak learning rate
    follows the batch by the schedule's rule, by the square root where it has none. Of phases the first is left, and
    of a ramp its first batch.

    Args:
      config: of the experiment; changed in place.
      data_dir: folder of the task's data; None for made-up data.
      keep: dotted names of fields that keep their values, such as those that the user gave.

    Returns:
      Lines for the banner.

    Raises:
      ValueError: a field of the config cannot be used.
    """
    check_fields(config)
    check_plan(config)
    hold_tuned_batch(config)
    kept = {name: holder[last] for name in keep for holder, last in [holder_of(config, name)]}
    config.update(phases(config)[0].to_dict())
    set_fields(config, kept)
    schedule, kind = config.schedule, tasks.get(config.task)
    batch_size = config.batch_size if "batch_size" in kept else min(config.batch_size, _BATCH)
    tuned = Recipe(schedule.batch_size, schedule.learning_rate, optimizer=optimizer_to_scale(config))
    rule = schedule.rule if schedule.rule != "none" else "sqrt"
    tuned_at = schedule.batch_size if "schedule.batch_size" in kept else batch_size
    scaled = tuned.at(tuned_at, rule, moments=schedule.moments, weight_decay=schedule.weight_decay)
    with config.optimizer.unlocked(), config.optimizer.ignore_type():
        config.optimizer.update(scaled.optimizer)
    if data_dir is None:
        steps, model, data = MADE_UP_STEPS, kind.smoke_model(config.model.to_dict()), {}
    else:
        steps, model = _STEPS, kind.quick_model(config.model.to_dict())
        data = kind.quick_data(config.data.to_dict(), expanded(data_dir))
    half = f"{steps // 2} steps"
    changes = {
        **{f"model.{name}": value for name, value in model.items() if name in config.model},
        **{f"data.{name}": value for name, value in data.items()},
        "batch_size": batch_size,
        "accumulation_steps": 1,
        "duration": f"{steps} steps",
        "phases": (),
        **{f"ramp.{name}": value for name, value in RAMP.items()},
        "schedule.batch_size": tuned_at,
        "schedule.learning_rate": float(f"{scaled.learning_rate:.4g}"),
        "schedule.warmup": "2 steps" if schedule.warmup or schedule.warmup_epochs else "",
        "schedule.warmup_epochs": 0.0,
        "schedule.start": "0 epochs",
        "schedule.every": half,
        "schedule.boundaries": (half,) if schedule.boundaries else (),
        "evaluation_batch_size": min(config.evaluation_batch_size, 2 * batch_size),
        # A whole held-out set takes longer than these steps: it is evaluated at the end alone.
        "evaluate_every": half if data_dir is None else "0 steps",
        "checkpoint_every": half,
        "log_every": f"{max(2, steps // 10)} steps",
        # A CPU without instructions for the others is slow in them, and the compiler takes longer than the run.
        "mixed_precision": "float32",
        "jit_compile": False,
        "instruments.probe.micro_batch_size": min(config.instruments.probe.micro_batch_size, batch_size),
        **{f"instruments.{name}.every": half for name in ("noise_scale", "sharpness", "layers")},
    }
    if config.simulated_replicas and batch_size % config.simulated_replicas:
        changes["simulated_replicas"] = 2 if batch_size % 2 == 0 else 0
    set_fields(config, {**changes, **kept})
    small = ", ".join(f"{name}={value}" for name, value in changes.items() if name.startswith(("model.", "data.")))
    run = f"{config.duration} of batch {batch_size} on {data_dir or 'made-up data'}"
    return [f"quick      a first try, whose result says little: {run}; {small}"]
