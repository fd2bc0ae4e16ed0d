"""The random generators of a Keras 2 model's layers, and the layers that draw from none."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# Arguments of Keras' random layers; a layer draws nothing where all that it has are 0.
_RATES = ("rate", "dropout", "recurrent_dropout", "stddev")


def random_generators(network: Any) -> list[tf.random.Generator]:
    """The random generators of the network's layers, in the order of its modules.

    tf_keras leaves them out of checkpoints.
    """
    generators = []
    for source in _sources(network).values():
        source._maybe_init()
        if source._generator is not None:
            generators.append(source._generator)
    return generators


def layers_without_generator(network: Any) -> list[str]:
    """The names of the layers that draw from TensorFlow's stateful operations, whose state no checkpoint holds."""
    found = []
    for module, source in _sources(network).items():
        rates = [rate for name in _RATES if isinstance(rate := getattr(module, name, None), (int, float))]
        if source._rng_type == source.RNG_LEGACY_STATEFUL and not (rates and not any(rates)):
            found.append(module.name)
    return found


def _sources(network: Any) -> dict[Any, Any]:
    # Private in tf_keras, and the only access to a layer's generator.
    sources = {module: getattr(module, "_random_generator", None) for module in getattr(network, "submodules", ())}
    return {module: source for module, source in sources.items() if hasattr(source, "_maybe_init")}
