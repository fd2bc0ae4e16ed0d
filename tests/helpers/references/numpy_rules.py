"""LARS and LAMB in float64 NumPy, written from the papers and apart from the package."""

import numpy as np


def lars_run(w, gradients, rates, *, wd=0.01, eeta=0.001, mu=0.9, eps=0.0, form="paper", nesterov=False, adapt=True):
    w = np.array(w, np.float64)
    v = np.zeros_like(w)
    for g, lr in zip(np.array(gradients, np.float64), rates):
        full = g + wd * w
        length = np.linalg.norm
        if form == "momentum_ratio":
            v = mu * v + full
            u = full + mu * v if nesterov else v
            r = eeta * length(w) / (length(u) + eps) if adapt and length(w) > 0 and length(u) > 0 else 1.0
            w = w - lr * r * u
            continue
        if form == "paper":
            bottom, second = length(g) + wd * length(w) + eps, length(g)
        else:
            bottom, second = length(full) + eps, length(full)
        r = eeta * length(w) / bottom if adapt and length(w) > 0 and second > 0 else 1.0
        v = mu * v + lr * r * full
        w = w - (lr * r * full + mu * v if nesterov else v)
    return w


def lamb_run(
    w, gradients, rates, *, wd=0.01, b1=0.9, b2=0.999, eps=1e-6, bias_correction=True, adapt=True, bounds=(0.0, np.inf)
):
    """`wd` is a number, or one for each step."""
    decays = np.broadcast_to(wd, len(rates))
    w = np.array(w, np.float64)
    m, s = np.zeros_like(w), np.zeros_like(w)
    for t, (g, lr) in enumerate(zip(np.array(gradients, np.float64), rates), start=1):
        m = b1 * m + (1 - b1) * g
        s = b2 * s + (1 - b2) * g * g
        first, second = (m / (1 - b1**t), s / (1 - b2**t)) if bias_correction else (m, s)
        u = first / (np.sqrt(second) + eps) + decays[t - 1] * w
        long_w, long_u = np.linalg.norm(w), np.linalg.norm(u)
        r = np.clip(long_w / long_u, *bounds) if adapt and long_w > 0 and long_u > 0 else 1.0
        w = w - lr * r * u
    return w
