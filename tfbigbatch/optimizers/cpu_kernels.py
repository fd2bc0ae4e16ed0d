"""LARS and LAMB on a CPU, in place, through TensorFlow's fused training kernels.

On a CPU the plain formulas of `rules.py` are bound by memory: each operation streams a whole layer
through it. Here the same step takes the fewest passes that TensorFlow's own kernels allow, and at
most one temporary of the layer's size. All variables are float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.optimizers import rules

# The name that TensorFlow gives to resources without one: the resource lives as long as its handle.
_ANONYMOUS = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"


def norm(tensor: tf.Tensor) -> tf.Tensor:
    """Euclidean norm, by the one-pass kernel behind `tf.nn.l2_loss` (half the sum of squares)."""
    return tf.sqrt(2.0 * tf.nn.l2_loss(tensor))


def adam_scalars(
    step: tf.Tensor, *, beta_1: float, beta_2: float, epsilon: float, bias_correction: bool
) -> dict[str, Any]:
    """The scalar arguments of Adam's kernel at `step`, but for the learning rate: the same for all layers.

    With a learning rate of 1 the kernel subtracts m sqrt(1 - b2^t) / (1 - b1^t) / (sqrt(v) + eps'), which for
    eps' = eps sqrt(1 - b2^t) is LAMB's bias-corrected direction.
    """
    # The kernel's moments decay by the betas as float32 has them.
    beta_1, beta_2 = float(np.float32(beta_1)), float(np.float32(beta_2))
    first, second = rules.lamb_corrections(step, beta_1, beta_2, bias_correction)
    return {
        "beta1_power": 1.0 - first,
        "beta2_power": 1.0 - second,
        "beta1": beta_1,
        "beta2": beta_2,
        "epsilon": epsilon * tf.sqrt(second),
    }


def lamb(
    gradient: tf.Tensor,
    weight: tf.Variable,
    m: tf.Variable,
    v: tf.Variable,
    *,
    scalars: dict[str, Any],
    learning_rate: tf.Tensor,
    weight_decay: tf.Tensor | float,
    adapt: bool,
    bounds: rules.Bounds | None = None,
    statistics: bool = False,
) -> tuple[tf.Operation, tuple[Any, Any, Any] | None]:
    """The in-place `rules.lamb`, on variables.

    Adam's kernel is given a temporary that already holds minus the decay, so that one kernel leaves
    minus the whole update there.

    Args:
      scalars: from `adam_scalars`, with an epsilon above 0.
      statistics: return the layer's; the step is the same to the bit.

    Returns:
      (the last operation, and (trust ratio, |weight| before, |its change|) or None).
    """
    adam = dict(m=m.handle, v=v.handle, grad=gradient, **scalars)
    no_decay = isinstance(weight_decay, float) and weight_decay == 0.0
    if no_decay and not adapt:
        # The weights are small where nothing adapts them: biases, and normalisation.
        before = tf.identity(weight) if statistics else None
        operation = tf.raw_ops.ResourceApplyAdam(var=weight.handle, lr=learning_rate, **adam)
        return operation, (1.0, norm(before), norm(weight - before)) if statistics else None

    update = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=weight.shape, shared_name=_ANONYMOUS)
    start = tf.zeros(weight.shape) if no_decay else -weight_decay * weight
    tf.raw_ops.AssignVariableOp(resource=update, value=start)
    tf.raw_ops.ResourceApplyAdam(var=update, lr=1.0, **adam)
    update = tf.ensure_shape(tf.raw_ops.ReadVariableOp(resource=update, dtype=tf.float32), weight.shape)
    rate, ratio = learning_rate, 1.0
    if adapt or statistics:
        weight_norm, update_norm = norm(weight), norm(update)
    if adapt:
        ratio = rules.trust_ratio(weight_norm, update_norm, weight_norm, update_norm, bounds)
        rate *= ratio
    operation = tf.raw_ops.ResourceApplyGradientDescent(var=weight.handle, alpha=-rate, delta=update)
    return operation, (ratio, weight_norm, tf.abs(rate) * update_norm) if statistics else None


def adamw(
    gradient: tf.Tensor,
    weight: tf.Variable,
    m: tf.Variable,
    v: tf.Variable,
    *,
    scalars: dict[str, Any],
    learning_rate: tf.Tensor,
    weight_decay: tf.Tensor | float,
    statistics: bool = False,
) -> tuple[tf.Operation, tuple[Any, Any, Any] | None]:
    """The in-place `rules.adamw`, on variables; `statistics` and the result as for `lamb`.

    Args:
      scalars: from `adam_scalars`, with the rule's own epsilon, above 0.
    """
    before = tf.identity(weight) if statistics else None
    if not (isinstance(weight_decay, float) and weight_decay == 0.0):
        tf.raw_ops.ResourceApplyGradientDescent(
            var=weight.handle, alpha=learning_rate * weight_decay, delta=tf.convert_to_tensor(weight)
        )
    operation = tf.raw_ops.ResourceApplyAdam(
        var=weight.handle, m=m.handle, v=v.handle, lr=learning_rate, grad=gradient, **scalars
    )
    return operation, (1.0, norm(before), norm(weight - before)) if statistics else None


def lars(
    gradient: tf.Tensor,
    weight: tf.Variable,
    velocity: tf.Variable,
    *,
    learning_rate: tf.Tensor,
    momentum: float,
    weight_decay: tf.Tensor | float,
    eeta: float,
    epsilon: float,
    nesterov: bool,
    adapt: bool,
    form: str,
    statistics: bool = False,
) -> tuple[tf.Operation, tuple[Any, Any, Any] | None]:
    """The in-place `rules.lars`, for the forms 'paper' and 'tfm'; `statistics` and the result as for `lamb`."""
    no_decay = isinstance(weight_decay, float) and weight_decay == 0.0
    # The decay is added to the velocity separately where the sum with the gradient is not needed.
    apart = form == "paper" and not nesterov and momentum > 0.0
    decayed = gradient if no_decay or apart else gradient + weight_decay * weight
    rate, ratio = learning_rate, 1.0
    if adapt or statistics:
        weight_norm = norm(weight)
    if adapt:
        gradient_norm = norm(gradient if form == "paper" else decayed)
        ratio = rules.lars_ratio(weight_norm, gradient_norm, weight_decay, eeta, epsilon, form)
        rate *= ratio
    if apart and not no_decay:
        # These parentheses: TensorFlow folds a chain of two scalars in an order that depends on the graph.
        tf.raw_ops.ResourceApplyGradientDescent(
            var=velocity.handle, alpha=rate * (weight_decay / momentum), delta=tf.convert_to_tensor(weight)
        )
    # Nesterov's change of the weights is in no variable; computed from the kernel's inputs, it would be rounded
    # differently.
    before = tf.identity(weight) if statistics and nesterov else None
    operation = tf.raw_ops.ResourceApplyKerasMomentum(
        var=weight.handle,
        accum=velocity.handle,
        lr=rate,
        grad=decayed,
        momentum=momentum,
        use_nesterov=nesterov,
    )
    if not statistics:
        return operation, None
    change = weight - before if nesterov else tf.convert_to_tensor(velocity)
    return operation, (ratio, weight_norm, norm(change))
