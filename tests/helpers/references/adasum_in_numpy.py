"""Adasum in float64 NumPy, as its paper has it: the binary tree ((01)(23)), pair by pair."""

import numpy as np


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
