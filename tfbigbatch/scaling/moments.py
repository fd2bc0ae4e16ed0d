"""Moments and weight decay of an optimizer at another batch size.

A batch k times as large leaves 1 / k of the steps of the same epochs. A moving average with the same beta then reaches
back over k times as many examples. beta' = beta ** k keeps its half-life in examples: Marek et al. 2025,
arXiv:2507.07101, for beta_2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.utils import arguments

_SECOND_MOMENTS = ("beta_2", "normuon_beta", "vectors.beta_2")
_FIRST_MOMENTS = ("beta_1", "momentum", "ema_momentum", "vectors.beta_1")
_ALL_MOMENTS = (*_SECOND_MOMENTS, *_FIRST_MOMENTS)

# What `Recipe.at` scales by name: the arguments of an optimizer that are decays of moving averages, with a dot those
# within an argument that is a dictionary.
MOMENTS: dict[str, tuple[str, ...]] = {
    "none": (),
    "half_life": _SECOND_MOMENTS,  # The paper's rule.
    "half_life_all": _ALL_MOMENTS,
}
WEIGHT_DECAYS = ("none", "kept")


def scaled_beta(beta: float, factor: float) -> float:
    """beta ** factor: the decay of a moving average with the same half-life in examples.

    Args:
      beta: decay of the average at each step, in [0, 1).
      factor: B' / B, how many times as large the batch becomes.

    Returns:
      In [0, 1): where the result would round to 1, the largest number below it.
    """
    # The power itself is rounded once; a logarithm and an exponential would be rounded twice.
    return min(beta**factor, math.nextafter(1.0, 0.0))


def checked_fields(fields: Any, owner: str) -> dict[str, Any]:
    """A copy of an optimizer's arguments with its moments and weight decay checked; those that are None stay None.

    Args:
      fields: mapping of argument to value.
      owner: for the message.

    Raises:
      ValueError: it is no mapping by name, has the learning rate, or a moment or the weight decay is out of range.
    """
    if not isinstance(fields, Mapping) or not all(isinstance(name, str) for name in fields):
        raise InputError(f"{owner}={fields!r} is not a dictionary of an optimizer's arguments, as {{'beta_2': 0.999}}.")
    if "learning_rate" in fields:
        raise InputError(f"{owner} has a learning_rate: that of a recipe is its own field. Leave it out here.")
    checked = {}
    for name, value in flat(fields).items():
        if value is not None and name in _ALL_MOMENTS:
            checked[name] = arguments.number(name, value, least=0, below=1, owner=owner)
        elif value is not None and name == "weight_decay":
            checked[name] = arguments.number(name, value, least=0, owner=owner)
    return with_values(fields, checked)


def flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """An optimizer's arguments by name, with the moments of one that is a dictionary by dotted names in its place."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        inner = {f"{name}.{each}": one for each, one in value.items()} if isinstance(value, Mapping) else {name: value}
        found |= {each: one for each, one in inner.items() if each == name or each in _ALL_MOMENTS}
    return found


def with_values(fields: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an optimizer's arguments with other values, by the names of `flat`."""
    changed = dict(fields)
    for name, value in values.items():
        argument, _, inner = name.partition(".")
        changed[argument] = {**changed[argument], inner: value} if inner else value
    return changed


def scaled_fields(
    fields: Mapping[str, Any], factor: float, rate_factor: float, *, moments: str, weight_decay: str
) -> dict[str, Any]:
    """An optimizer's arguments at another batch size.

    Args:
      fields: arguments by name, from `checked_fields`.
      factor: B' / B, how many times as large the batch becomes.
      rate_factor: how many times as large the learning rate becomes.
      moments: name of `MOMENTS`.
      weight_decay: 'none' or 'kept'.

    Raises:
      ValueError: a name is unknown, or no argument above 0 is there to scale.
    """
    arguments.one_of("moments", moments, MOMENTS)
    arguments.one_of("weight_decay", weight_decay, WEIGHT_DECAYS)
    values = flat(fields)
    present = [name for name in MOMENTS[moments] if values.get(name)]
    if moments != "none" and not present:
        raise InputError(
            f"moments={moments!r} scales {', '.join(MOMENTS[moments])}; the recipe has none of them above 0. Give "
            "those of your optimizer, as Recipe(..., optimizer={'beta_2': 0.999})."
        )
    scaled = {name: scaled_beta(values[name], factor) for name in present}
    if weight_decay == "kept":
        if not fields.get("weight_decay"):
            raise InputError(
                "weight_decay='kept': the recipe has no weight_decay above 0. Give that of your optimizer, as "
                "Recipe(..., optimizer={'weight_decay': 0.01})."
            )
        # A step takes learning_rate * weight_decay * w: rate x decay x steps is what the weights lose over a run.
        scaled["weight_decay"] = fields["weight_decay"] * factor / rate_factor
    return with_values(fields, scaled)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The differences between two recipes' arguments by name: 'beta_2 0.999 -> 0.9841'."""
    before, after = flat(before), flat(after)
    return [
        f"{name} {shown(name, before.get(name))} -> {shown(name, after.get(name))}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


def shown(name: str, value: Any) -> str:
    """An argument's value as text; of a decay near 1, with three digits of its distance from 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    digits = 4
    if name in _ALL_MOMENTS and 0.0 < value < 1.0:
        digits = max(digits, 2 - math.floor(math.log10(1.0 - value)))
    return f"{value:.{digits}g}"
