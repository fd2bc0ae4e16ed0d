"""State with a time constant in steps, which few steps leave near its first value: batch normalisation and averages."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from tfbigbatch.utils import arguments

MOST_LEFT = 0.05
"""The largest part of the first value that may be left at the end; above, there is a warning."""
# The part that is left with the value that a warning names, at most.
_LEFT = 0.01
# Growths of a dynamic loss scale in a run, with the value that a warning names.
_GROWTHS = 20
_MOST_NAMES = 3


def check(model: Any, steps: int) -> list[str]:
    """Warns of state that a `fit` of few steps leaves near its first value, which no loss shows.

        tfbigbatch.check(model, steps=epochs * steps_per_epoch)

    An average of momentum m keeps m ** steps of what it began with; with Keras' default 0.99 that is 62% after 48
    steps. Batch normalisation then evaluates with wrong statistics. So it is with averages of the weights (`use_ema`),
    and a dynamic loss scale whose `dynamic_growth_steps` exceed the run never grows.

    Args:
      model: of Keras 2 or 3, on any backend; compiled, to check its optimizer too.
      steps: batches that `fit` trains on in all.

    Returns:
      A sentence for each finding, with the value to set; each is also given to `warnings.warn`.

    Raises:
      ValueError: `steps` is not a whole number of 1 or more.
    """
    batches = arguments.integer("steps", steps, least=1, owner="tfbigbatch.check")
    optimizer = getattr(model, "optimizer", None)
    found = findings(model, optimizer, batches=batches, updates=max(1, batches // _accumulation(optimizer)))
    for each in found:
        warnings.warn(each, stacklevel=2)
    return found


def findings(model: Any, optimizer: Any, *, batches: int, updates: int) -> list[str]:
    """A sentence for each state that the run leaves near its first value.

    Args:
      model: of Keras 2 or 3; None to look at the optimizer alone.
      optimizer: its optimizer; None without one.
      batches: forward passes that update statistics.
      updates: steps of the optimizer.
    """
    layers = [] if model is None else normalisations(model)
    return [*_normalisation_findings(layers, batches), *_optimizer_findings(optimizer, updates)]


def normalisations(model: Any) -> list[Any]:
    """The batch normalisations of a model that training updates, in the order of its layers.

    A frozen one (`trainable` is False) keeps its statistics.
    """
    return [
        layer
        for layer in model._flatten_layers()
        if any("BatchNormalization" in cls.__name__ for cls in type(layer).__mro__)
        and isinstance(getattr(layer, "momentum", None), (int, float))
        and layer.trainable
    ]


def _normalisation_findings(layers: Iterable[Any], batches: int) -> Iterator[str]:
    by_momentum: dict[float, list[str]] = {}
    for layer in layers:
        by_momentum.setdefault(float(layer.momentum), []).append(layer.name)
    for momentum, names in by_momentum.items():
        if _is_too_slow(momentum, batches):
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            yield (
                f"batch normalisation ({', '.join(names[:_MOST_NAMES])}{more}): momentum={momentum:g} keeps "
                f"{momentum**batches:.0%} of its first statistics over {_counted(batches, 'batch')}, so evaluation is "
                f"wrong however well the model fits. Set momentum={_slowest(batches):g}."
            )


def _optimizer_findings(optimizer: Any, updates: int) -> Iterator[str]:
    # Loss scaling, Adasum and the like wrap another optimizer.
    while optimizer is not None:
        momentum = getattr(optimizer, "ema_momentum", None)
        if getattr(optimizer, "use_ema", False) and momentum is not None and _is_too_slow(momentum, updates):
            yield (
                f"use_ema: ema_momentum={momentum:g} keeps {momentum**updates:.0%} of the first weights over "
                f"{_counted(updates, 'step')}. Set ema_momentum={_slowest(updates):g}."
            )
        growth = getattr(optimizer, "dynamic_growth_steps", None)
        if growth is not None and growth > updates and getattr(optimizer, "dynamic", True):
            yield (
                f"loss scaling: dynamic_growth_steps={int(growth)} is more than the run's "
                f"{_counted(updates, 'step')}: a scale that fell never grows again. Set "
                f"dynamic_growth_steps={max(1, updates // _GROWTHS)}, or take bfloat16, which needs no scale."
            )
        optimizer = getattr(optimizer, "inner_optimizer", None)


def _is_too_slow(momentum: float, updates: int) -> bool:
    return 0.0 < momentum <= 1.0 and momentum**updates > MOST_LEFT


def _slowest(updates: int) -> float:
    """A momentum of which `updates` leave at most `_LEFT`: 1 less a number of one digit."""
    faster = 1.0 - _LEFT ** (1.0 / updates)
    digit = 10.0 ** math.floor(math.log10(faster))
    return float(f"{1.0 - digit * math.ceil(faster / digit - 1e-9):.12g}")


def _accumulation(optimizer: Any) -> int:
    """Batches of an update, for an optimizer that accumulates gradients."""
    found = 1
    while optimizer is not None:
        for name in ("accumulation_steps", "gradient_accumulation_steps"):
            steps = getattr(optimizer, name, None)
            found = max(found, steps if isinstance(steps, int) else 1)
        optimizer = getattr(optimizer, "inner_optimizer", None)
    return found


def _counted(number: int, unit: str) -> str:
    plural = unit if number == 1 else f"{unit}es" if unit.endswith("ch") else f"{unit}s"
    return f"{number:,} {plural}"
