"""The maths of layer-wise adaptive updates, as pure functions on tensors.

Every function takes and returns float32 tensors and keeps no state; the Keras faces hold the
variables. `weight` is one layer's variable, `gradient` its gradient after reduction and clipping.

Sources: LARS, You et al. 2017, arXiv:1708.03888 (Algorithm 1); LAMB, You et al. 2020,
arXiv:1904.00962 (Algorithm 2).
"""

import tensorflow as tf


def norm(tensor):
    """Euclidean norm of all entries, a float32 scalar."""
    return tf.sqrt(tf.reduce_sum(tf.square(tensor)))


def trust_ratio(numerator, denominator, weight_norm, update_norm):
    """`numerator / denominator`, or 1 where `weight_norm` or `update_norm` is zero.

    A layer that starts at zero (a bias, the last gamma of a residual block) would never move if
    its ratio were zero, and one with a zero update has no direction to scale: both are left to
    the plain learning rate.
    """
    both = tf.logical_and(weight_norm > 0.0, update_norm > 0.0)
    return tf.where(both, tf.math.divide_no_nan(numerator, denominator), 1.0)


def lars(
    gradient, weight, momentum_slot, *, learning_rate, momentum, weight_decay, eeta, epsilon, nesterov, adapt, form
):
    """One LARS update.

    Forms (the names of what each reproduces):
      paper: ratio = eeta |w| / (|g| + wd |w| + eps); learning rate inside the momentum. MLPerf's.
      tfm: ratio = eeta |w| / (|g + wd w| + eps); learning rate inside. tf-models-official, optax.
      momentum_ratio: ratio = eeta |w| / (|update| + eps) of the momentum's update; learning rate
        outside. tf-models-official with `classic_momentum=False`.

    Args:
      adapt: False leaves the trust ratio at 1 (a layer excluded from layer adaptation).

    Returns:
      (weight, momentum_slot) after the update.
    """
    decayed = gradient + weight_decay * weight
    if form == "momentum_ratio":
        momentum_slot = momentum * momentum_slot + decayed
        update = momentum * momentum_slot + decayed if nesterov else momentum_slot
        ratio = 1.0
        if adapt:
            weight_norm, update_norm = norm(weight), norm(update)
            ratio = trust_ratio(eeta * weight_norm, update_norm + epsilon, weight_norm, update_norm)
        return weight - learning_rate * ratio * update, momentum_slot

    ratio = 1.0
    if adapt:
        weight_norm = norm(weight)
        if form == "paper":
            gradient_norm = norm(gradient)
            denominator = gradient_norm + weight_decay * weight_norm + epsilon
            ratio = trust_ratio(eeta * weight_norm, denominator, weight_norm, gradient_norm)
        else:
            decayed_norm = norm(decayed)
            ratio = trust_ratio(eeta * weight_norm, decayed_norm + epsilon, weight_norm, decayed_norm)
    scaled = learning_rate * ratio * decayed
    momentum_slot = momentum * momentum_slot + scaled
    update = momentum * momentum_slot + scaled if nesterov else momentum_slot
    return weight - update, momentum_slot


def lamb(gradient, weight, m, v, *, learning_rate, step, beta_1, beta_2, epsilon, weight_decay, bias_correction, adapt):
    """One LAMB update: an Adam direction plus decay, rescaled to the norm of the weights.

    Args:
      m, v: first and second moment of the gradient.
      step: float32 scalar, the number of this update, from 1.
      adapt: False leaves the trust ratio at 1 (a layer excluded from layer adaptation).

    Returns:
      (weight, m, v) after the update.
    """
    m = beta_1 * m + (1.0 - beta_1) * gradient
    v = beta_2 * v + (1.0 - beta_2) * tf.square(gradient)
    m_hat, v_hat = m, v
    if bias_correction:
        m_hat = m / (1.0 - tf.pow(beta_1, step))
        v_hat = v / (1.0 - tf.pow(beta_2, step))
    # divide_no_nan: with epsilon 0 an entry that never had a gradient is 0 / 0, and stays where it is.
    update = tf.math.divide_no_nan(m_hat, tf.sqrt(v_hat) + epsilon) + weight_decay * weight
    ratio = 1.0
    if adapt:
        weight_norm, update_norm = norm(weight), norm(update)
        ratio = trust_ratio(weight_norm, update_norm, weight_norm, update_norm)
    return weight - learning_rate * ratio * update, m, v
