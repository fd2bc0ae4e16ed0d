"""The optimizers in float64 NumPy, written from the papers and apart from the package."""

import functools
import itertools

import numpy as np

# ---- LARS and LAMB ---------------------------------------------------------------------------------


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


# ---- Muon of one matrix ----------------------------------------------------------------------------

QUINTIC = (3.4445, -4.7750, 2.0315)
# Amsel et al. 2025, Algorithm 1: each but the last with its safety factor of 1.01.
POLAR_EXPRESS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
    (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
    (1.8750014808534479, -1.2500016453999487, 0.3750001645474248),
    (1.875, -1.25, 0.375),
)


def polynomials(name, steps):
    if name == "quintic":
        return [QUINTIC] * steps
    made = [(a / 1.01, b / 1.01**3, c / 1.01**5) for a, b, c in POLAR_EXPRESS[:-1]] + [POLAR_EXPRESS[-1]] * steps
    return made[:steps]


def newton_schulz(matrix, name="quintic", steps=5):
    x = np.array(matrix, np.float64)
    x = x / np.linalg.norm(x) if x.any() else x
    for a, b, c in polynomials(name, steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def polar_factor(matrix):
    left, _, right = np.linalg.svd(np.array(matrix, np.float64), full_matrices=False)
    return left @ right


def muon_run(
    w, gradients, rates, *, wd=0.0, mu=0.95, nesterov=True, name="quintic", steps=5, scale="rms", beta=None, adapt=True
):
    """`w` and the gradients are matrices [in, out]; `wd` is a number, or one for each step."""
    w = np.array(w, np.float64)
    momentum, second_moment = np.zeros_like(w), np.zeros(w.shape[1])
    for g, lr, decay in zip(np.array(gradients, np.float64), rates, np.broadcast_to(wd, len(rates))):
        momentum = mu * momentum + g
        o = newton_schulz(g + mu * momentum if nesterov else momentum, name, steps)
        if beta is not None:
            second_moment = beta * second_moment + (1 - beta) * (o**2).mean(axis=0)
            normalized = o / (np.sqrt(second_moment) + 1e-8)
            o = normalized * np.linalg.norm(o) / np.linalg.norm(normalized)
        inputs, outputs = w.shape
        o = (
            o
            * {"rms": 0.2 * max(inputs, outputs) ** 0.5, "spectral": (outputs / inputs) ** 0.5, "trust_ratio": 1}[scale]
        )
        update = o + decay * w
        ratio = 1.0
        if scale == "trust_ratio" and adapt and w.any() and update.any():
            ratio = np.linalg.norm(w) / np.linalg.norm(update)
        w = w - lr * ratio * update
    return w


# ---- Shampoo, by loops over blocks and eigendecompositions -----------------------------------------


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


# ---- Adasum, the paper's binary tree ((01)(23)), pair by pair --------------------------------------


def pair(a, b):
    dot, of_a, of_b = np.vdot(a, b), np.vdot(a, a), np.vdot(b, b)
    left = 1.0 - dot / (2.0 * of_a) if of_a else 1.0
    right = 1.0 - dot / (2.0 * of_b) if of_b else 1.0
    return left * a + right * b


def tree(vectors):
    """The combination of a list of arrays; the last of an odd number waits for the next level."""
    level = [np.asarray(vector, np.float64) for vector in vectors]
    while len(level) > 1:
        pairs = [pair(*level[i : i + 2]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


# ---- Local steps: momentum SGD on each replica, and outer steps ------------------------------------


def local_steps_run(
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
    combine = tree if outer == "adasum" else functools.partial(np.mean, axis=0)
    weights = np.array([start] * replicas, np.float64)
    moments = np.zeros_like(weights)
    common, velocity = weights[0].copy(), np.zeros_like(weights[0])

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
        elif (step + 1) % every == 0:
            outer_step(combine(weights - common))
            weights = np.array([common] * replicas)
    if synchronize and steps % every:
        outer_step(combine(weights - common))
        weights = np.array([common] * replicas)
    return weights
