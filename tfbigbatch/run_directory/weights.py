"""Weights of a network in a checkpoint, by the paths of their variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tfbigbatch.errors import InputError, first_line
from tfbigbatch.run_directory import checkpoint_files
from tfbigbatch.utils.tensorflow_paths import literal_path

if TYPE_CHECKING:
    import keras

WEIGHTS = "weights"
"""Name, in a checkpoint, of a network's weights."""
# As TensorFlow writes the key of a dictionary: a slash is '.S', a point '..'.
_KEY = re.compile(r"(\w+)/([^/]+)/\.ATTRIBUTES/VARIABLE_VALUE$")


def by_path(network: keras.Model) -> dict[str, keras.Variable]:
    """A network's weights by their paths within it, as 'dense/kernel': for parts of a checkpoint.

    tf.train.Checkpoint(weights={path: each.value for path, each in by_path(network).items()}) is what a run writes, and
    what `--init_from` reads.

    Args:
      network: built. A second variable of the same path, as layers of one name have, is 'PATH~2'. The states of random
        generators are not among them.
    """
    found: dict[str, Any] = {}
    for variable in network.weights:
        # A Sequential or subclassed model puts its own name first, which may be any.
        path = name = variable.path.removeprefix(f"{network.name}/")
        number = 1
        while name in found:
            number += 1
            name = f"{path}~{number}"
        found[name] = variable
    return found


def read(path: str) -> dict[str, np.ndarray]:
    """The weights in a checkpoint by path: of a run with `use_ema` their moving averages, as it evaluates.

    Args:
      path: without the endings of its files.

    Raises:
      ValueError: the checkpoint is damaged, or has no weights by path.
    """
    checkpoint_files.check_all(path)
    try:
        reader = tf.train.load_checkpoint(literal_path(path))
        found: dict[str, dict[str, np.ndarray]] = {WEIGHTS: {}, checkpoint_files.AVERAGES: {}}
        for key in sorted(reader.get_variable_to_shape_map()):
            part, name = match.groups() if (match := _KEY.match(key)) else ("", "")
            if part in found:
                name = re.sub(r"\.([.S])", lambda escaped: "/" if escaped[1] == "S" else ".", name)
                found[part][name] = reader.get_tensor(key)
    # TensorFlow turns data that ends too soon into Python's own errors.
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError) as error:
        raise InputError(f"checkpoint {path} is damaged: {first_line(error)} Choose another checkpoint.") from None
    if not found[WEIGHTS]:
        raise InputError(
            f"checkpoint {path} has no weights by path: it is of tfbigbatch before 0.3, or of another program. Of a "
            "Keras 3 model make one: tf.train.Checkpoint(weights={path: each.value for path, each in "
            "tfbigbatch.run_directory.weights.by_path(model).items()}).write('start/step-0')."
        )
    return {**found[WEIGHTS], **found[checkpoint_files.AVERAGES]}
