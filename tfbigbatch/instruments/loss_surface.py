"""The loss on a probe along a line between two sets of weights, and on a plane around one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfbigbatch.errors import InputError
from tfbigbatch.instruments.probe.loss import ProbeLoss
from tfbigbatch.instruments.probe.micro_batches import micro_batches_of
from tfbigbatch.instruments.probe.model import probe_mode, tensor_variable
from tfbigbatch.instruments.weights import between, filter_normalised, floating_variables, point_of

LINE = tuple(np.linspace(-0.25, 1.25, 31).tolist())


def losses_along(
    model: Any,
    start: Any,
    end: Any = None,
    *,
    probe: Any,
    micro_batches: int = 8,
    positions: Sequence[float] = LINE,
    training: bool | None = None,
) -> np.ndarray:
    """The loss at start + position (end - start), for each position.

    Interpolates all floating-point weights, including batch normalisation's statistics, and restores the model's own.

    Args:
      model: of Keras 2 or 3, compiled, and trained for at least one step.
      start, end: sets of weights; see `weights.point_of`. None: the current weights.
      probe: fixed examples: a tuple (x, y) or (x, y, weight) of arrays, or an iterable of equal micro-batches.
      micro_batches: number of parts that a tuple is cut into.
      positions: 0 is the start, 1 the end.
      training: mode of the forward pass; None: inference, unless the model has batch normalisation.

    Returns:
      float64 [positions].

    Raises:
      ValueError: weights of another model, or the probe cannot be cut.
    """
    start, end = point_of(model, start), point_of(model, end)
    loss = _probe_loss(model, probe, micro_batches, training)
    variables = floating_variables(model)
    return np.array([loss.at(variables, between(start, end, position)) for position in positions])


def losses_around(
    model: Any,
    weights: Any = None,
    *,
    probe: Any,
    micro_batches: int = 8,
    points: int = 21,
    reach: float = 1.0,
    seed: int = 0,
    training: bool | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The loss on a plane through a set of weights, along two random filter-normalised directions.

    Li et al. 2018 (arXiv:1712.09913), section 4: each filter of a direction has the norm of the weights' filter, so
    that plots of networks of different scales can be compared.

    Args:
      model, probe, micro_batches, training: as for `losses_along`.
      weights: a set of weights, as `start` there.
      points: along each axis, odd, so that the weights themselves are included.
      reach: the axes span -reach to reach, in norms of the weights' filters.
      seed: of the directions.

    Returns:
      (positions [points], losses [points, points]): the first direction's position is the second index.

    Raises:
      ValueError: as `losses_along`, or `points` is even or below 3.
    """
    check_points(points)
    point = point_of(model, weights)
    variables = floating_variables(model)
    moving = {id(tensor_variable(variable)) for variable in model.trainable_variables}
    trainable = [id(variable) in moving for variable in variables]
    random = np.random.RandomState(seed)
    across, up = (filter_normalised(point, random, trainable) for _ in range(2))
    loss = _probe_loss(model, probe, micro_batches, training)
    positions = np.linspace(-reach, reach, points)

    def at(x: float, y: float) -> float:
        return loss.at(variables, [w + x * one + y * other for w, one, other in zip(point, across, up)])

    return positions, np.array([[at(x, y) for x in positions] for y in positions])


def check_points(points: int) -> None:
    """Raises ValueError if the plane would not include the weights themselves."""
    if points < 3 or points % 2 == 0:
        raise InputError(
            f"{points} points along each axis of a surface: expected an odd number of 3 or more, so that the weights "
            "are in the middle."
        )


def _probe_loss(model: Any, probe: Any, micro_batches: int, training: bool | None) -> ProbeLoss:
    return ProbeLoss(model, micro_batches_of(probe, micro_batches), probe_mode(model, training))
