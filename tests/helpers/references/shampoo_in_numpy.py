"""Shampoo in float64 NumPy, by loops over blocks and eigendecompositions, written apart from the package."""

import itertools

import numpy as np


def merge_axes(shape, most):
    """Neighbouring axes in one as long as their product is small."""
    result, product = [], 1
    for size in shape:
        if product * size <= most:
            product *= size
        else:
            result.append(product)
            product = size
    result.append(product)
    return [size for size in result if size > 1] or [1]


def cuts(shape, block_size):
    """Slices of each block: parts of an axis are of equal size, but for a smaller last one."""
    by_axis = []
    for size in shape:
        parts = int(np.ceil(size / block_size))
        side = int(np.ceil(size / parts))
        by_axis.append([slice(start, min(start + side, size)) for start in range(0, size, side)])
    return list(itertools.product(*by_axis))


def inverse_root(matrix, p, epsilon):
    values, vectors = np.linalg.eigh(matrix)
    scale = values.max() if values.max() > 0 else 1.0
    return vectors @ np.diag((np.maximum(values, 0) + epsilon * scale) ** (-1 / p)) @ vectors.T


def along(tensor, axis):
    """The tensor as a matrix, with `axis` in its rows."""
    return np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1)


def preconditioned(tensor, roots):
    for axis, root in enumerate(roots):
        tensor = np.moveaxis(np.tensordot(root, tensor, axes=(1, axis)), 0, axis)
    return tensor


def shampoo_run(
    w, gradients, rates, *, wd=0.01, b1=0.9, b2=0.9, nesterov=True, graft="sgd", eeta=0.001, eps=1e-8, block_size=128,
    p=4, matrix_epsilon=1e-4, every=1, graft_steps=0, precondition=True, adapt=True,
):  # fmt: skip
    w = np.array(w, np.float64)
    axes = merge_axes(w.shape, block_size)
    places = cuts(axes, block_size) if precondition else []
    statistics = [[np.zeros((n, n)) for n in np.zeros(axes)[place].shape] for place in places]
    roots = [[np.eye(len(s)) for s in each] for each in statistics]
    v, momentum, graft_momentum = np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)

    def stepped(update, m, t, lr):
        """The weights and momentum after an update of the graft's length."""
        long_w = np.linalg.norm(w)
        if graft == "lamb":
            m = b1 * m + (1 - b1) * update
            ahead = (b1 * m + (1 - b1) * update if nesterov else m) / (1 - b1**t)
            full = ahead + wd * w
            long = np.linalg.norm(full)
            return w - lr * (long_w / long if adapt and long_w > 0 and long > 0 else 1.0) * full, m
        ratio = 1.0
        if graft == "lars" and adapt and long_w > 0 and np.linalg.norm(update) > 0:
            ratio = eeta * long_w / (np.linalg.norm(update) + wd * long_w)
        full = ratio * (update + wd * w)
        m = b1 * m + full
        return w - lr * (full + b1 * m if nesterov else m), m

    for t, (g, lr) in enumerate(zip(np.array(gradients, np.float64), rates), start=1):
        direction = g.reshape(axes).copy()
        for block, place in enumerate(places):
            part = g.reshape(axes)[place]
            for axis in range(len(axes)):
                rows = along(part, axis)
                statistics[block][axis] = b2 * statistics[block][axis] + (1 - b2) * rows @ rows.T
                if (t - 1) % every == 0:
                    roots[block][axis] = inverse_root(statistics[block][axis], p, matrix_epsilon)
            direction[place] = preconditioned(part, roots[block])
        direction = direction.reshape(w.shape)
        v = b2 * v + (1 - b2) * g * g
        update = g
        if graft == "rmsprop":
            update = g / (np.sqrt(v) + eps)
        if graft == "lamb":
            update = g / (np.sqrt(v / (1 - b2**t)) + eps)
        long = np.linalg.norm(direction)
        grafted = direction * (np.linalg.norm(update) / long if long > 0 else 0.0)
        shampoo_w, momentum = stepped(grafted if precondition else update, momentum, t, lr)
        graft_w, graft_momentum = stepped(update, graft_momentum, t, lr)
        w = graft_w if t <= graft_steps else shampoo_w
    return w
