"""Muon of one matrix in float64 NumPy, written from the papers and apart from the package."""

import numpy as np

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
