"""What the recurrent models share: the check of their sizes, and uniform initialisation."""

from __future__ import annotations

import tf_keras

from tfbigbatch.errors import InputError


def check_sizes(*, dropout: float, initial_scale: float, **sizes: int) -> None:
    """Raises ValueError for a size below 1, a dropout rate outside [0, 1), or an initial_scale of 0 or less."""
    if min(sizes.values()) < 1 or not 0.0 <= dropout < 1.0 or initial_scale <= 0:
        given = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise InputError(
            f"{given}, dropout={dropout}, initial_scale={initial_scale}: expected sizes of 1 or more, "
            "0 <= dropout < 1, and initial_scale above 0."
        )


def uniform(initial_scale: float) -> tf_keras.initializers.Initializer:
    """Uniform in [-initial_scale, initial_scale]; each weight needs its own, which draws other numbers."""
    return tf_keras.initializers.RandomUniform(-initial_scale, initial_scale)
