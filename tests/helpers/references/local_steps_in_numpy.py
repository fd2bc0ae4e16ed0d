"""Local steps in float64 NumPy: momentum SGD on each replica, and outer steps."""

import numpy as np

from tests.helpers.references.adasum_in_numpy import tree


def mean(changes):
    return np.mean(changes, axis=0)


def trained(
    start,
    gradient,
    *,
    replicas,
    steps,
    every,
    learning_rate,
    momentum=0.0,
    outer="average",
    outer_learning_rate=1.0,
    outer_momentum=0.0,
    delay=0,
    group_size=1,
    data_parallel_steps=0,
    synchronize=False,
):
    """Each replica's weights after the steps: float64 [replicas, ...].

    Args:
      start: the weights of all at first.
      gradient: function of (weights, replica, step) to the replica's gradient.
      learning_rate: function of the step.
      synchronize: combine what is left at the end.
      The others: as LocalSteps has them; `momentum` is that of each replica's SGD.
    """
    combine = tree if outer == "adasum" else mean
    weights = np.array([start] * replicas, np.float64)
    moments = np.zeros_like(weights)
    common, velocity = weights[0].copy(), np.zeros_like(weights[0])
    own = np.zeros_like(weights)

    def outer_step(change):
        nonlocal common, velocity
        velocity = outer_momentum * velocity + change
        common = common + outer_learning_rate * (outer_momentum * velocity + change)

    for step in range(steps):
        gradients = np.array([gradient(weights[replica], replica, step) for replica in range(replicas)])
        size = replicas if step < data_parallel_steps else group_size
        groups = gradients.reshape([-1, size, *gradients.shape[1:]]).mean(axis=1)
        gradients = np.repeat(groups, size, axis=0)
        moments = momentum * moments - learning_rate(step) * gradients
        weights = weights + moments
        if step < data_parallel_steps:
            common = weights[0].copy()
        elif (step + 1) % every == 0 and not delay:
            outer_step(combine(weights - common))
            weights = np.array([common] * replicas)
        elif (step + 1) % every == 0:
            changes = weights - (common + own)
            outer_step(combine(own))
            own = changes
            weights = common + own
    if synchronize and delay:
        changes = weights - (common + own)
        outer_step(combine(own))
        outer_step(combine(changes))
        weights = np.array([common] * replicas)
    elif synchronize and steps % every:
        outer_step(combine(weights - common))
        weights = np.array([common] * replicas)
    return weights
