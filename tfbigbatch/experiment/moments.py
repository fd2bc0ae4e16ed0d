"""The moments and the weight decay of an experiment's optimizer, which `schedule` may scale with the batch."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import ml_collections

from tfbigbatch import scaling
from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import registry
from tfbigbatch.scaling.moments import MOMENTS, WEIGHT_DECAYS, checked_fields
from tfbigbatch.utils import arguments


def optimizer_to_scale(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """The optimizer's arguments that `schedule.moments` and `schedule.weight_decay` scale, at `schedule.batch_size`.

    Defaults of the optimizer count: AdamW without a beta_2 in its config has Keras' 0.999.

    Args:
      config: of an experiment, or of a phase.

    Returns:
      Numbers above 0 by name; empty where nothing is asked for.

    Raises:
      ValueError: a name is unknown, or the optimizer has nothing of what is asked for.
    """
    moments, weight_decay = config.schedule.moments, config.schedule.weight_decay
    arguments.one_of("schedule.moments", moments, MOMENTS)
    arguments.one_of("schedule.weight_decay", weight_decay, WEIGHT_DECAYS)
    if not _scales(config):
        return {}
    values = _numbers(config)
    found = {name: values[name] for name in MOMENTS[moments] if name in values}
    name = config.optimizer.get("name")
    if moments != "none" and not found:
        others = [each for each in MOMENTS["half_life_all"] if each in values]
        hint = (
            f"Take 'half_life_all', which scales its {' and '.join(others)}, or 'none'." if others else "Take 'none'."
        )
        raise InputError(
            f"schedule.moments={moments!r} scales {', '.join(MOMENTS[moments])}; the optimizer {name!r} of this "
            f"experiment has none of them above 0. {hint}"
        )
    if weight_decay == "kept":
        if "weight_decay" not in values:
            raise InputError(
                f"schedule.weight_decay='kept': the optimizer {name!r} of this experiment has no weight_decay above 0. "
                "Set optimizer.weight_decay, or take 'none'."
            )
        found["weight_decay"] = values["weight_decay"]
    return found


def scaled_recipe(config: ml_collections.ConfigDict, tuned: scaling.Recipe) -> scaling.Recipe:
    """A config's recipe scaled to its own batch, by the rules of its schedule.

    Args:
      config: of an experiment, or of a phase.
      tuned: from `tuned_recipe`.

    Raises:
      ValueError: a rule is unknown.
    """
    schedule = config.schedule
    return tuned.at(config.batch_size, schedule.rule, moments=schedule.moments, weight_decay=schedule.weight_decay)


def check_one_optimizer(phases: Sequence[ml_collections.ConfigDict]) -> None:
    """Checks that the phases of a run scale the optimizer equally: one optimizer stays for all of them.

    Args:
      phases: of the run, in order; with a batch ramp, the config of its first batch.

    Raises:
      ValueError: an argument is scaled, and the batch or what scales it changes in the run.
    """
    asked = next((phase for phase in phases if _scales(phase)), None)
    if asked is None:
        return
    names = ("moments", "weight_decay")
    field = next(f"schedule.{name}={asked.schedule[name]!r}" for name in names if asked.schedule[name] != "none")
    if asked.ramp.name != "none":
        differs = f"ramp.name={asked.ramp.name!r} makes its batch larger while it trains"
    else:
        compared = {"batch_size": [phase.batch_size for phase in phases]}
        for name in ("batch_size", *names, *(("rule",) if asked.schedule.weight_decay != "none" else ())):
            compared[f"schedule.{name}"] = [phase.schedule[name] for phase in phases]
        changing = next((name for name, values in compared.items() if len(set(values)) > 1), None)
        if changing is None:
            return
        differs = f"its phases have {changing} {', '.join(map(str, compared[changing]))}"
    raise InputError(
        f"{field}: the optimizer of a run keeps its moments and weight decay, and {differs}. Leave schedule.moments "
        "and schedule.weight_decay 'none', or train each batch in a run of its own."
    )


def _scales(config: ml_collections.ConfigDict) -> bool:
    return config.schedule.moments != "none" or config.schedule.weight_decay != "none"


def _numbers(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """The optimizer's moments and weight decay above 0, by name."""
    given = config.optimizer.to_dict()
    name = given.pop("name", None)
    values = {**registry.fields(name), **given}
    if not values.get("use_ema"):
        # Without an average of the weights its decay is unused.
        values.pop("ema_momentum", None)
    names = [*MOMENTS["half_life_all"], "weight_decay"]
    set_ones = {
        each: values[each] for each in names if values.get(each, inspect.Parameter.empty) is not inspect.Parameter.empty
    }
    return {each: value for each, value in checked_fields(set_ones, f"optimizer {name!r}").items() if value}
