"""Keras' Adam and AdamW with sharded updates."""

from __future__ import annotations

import importlib
from typing import Any

from tfbigbatch.errors import InputError

_MODULES = {"tf_keras": "keras2", "keras": "keras3"}
# Arguments of `optimizers.AdamW` that Keras' optimizers have in their configs under the same names.
_SAME = (
    "name",
    "beta_1",
    "beta_2",
    "epsilon",
    "amsgrad",
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "use_ema",
    "ema_momentum",
    "ema_overwrite_frequency",
    "loss_scale_factor",
)


def sharded(optimizer: Any) -> Any:
    """The `optimizers.AdamW` with `shard_updates=True` that takes the place of Keras' Adam or AdamW.

    Call it in the strategy's scope.

    Args:
      optimizer: an Adam or AdamW of either Keras, before its first step. Its hyperparameters, schedule, and exclusions
        from weight decay are taken over.

    Returns:
      An optimizer of the same Keras.

    Raises:
      ValueError: the optimizer is another, or has taken steps.
    """
    kind = type(optimizer)
    package = kind.__module__.partition(".")[0]
    if package not in _MODULES or kind.__name__ not in ("Adam", "AdamW"):
        raise InputError(
            f"optimizers.sharded: {optimizer!r} cannot be sharded; Adam and AdamW of tf_keras and keras can. LARS, "
            "LAMB, Muon and Shampoo of tfbigbatch take shard_updates=True; wrappers go around the outcome, as "
            "LossScaleOptimizer(sharded(Adam()))."
        )
    if int(optimizer.iterations.numpy()) > 0:
        raise InputError(
            f"optimizers.sharded: the {kind.__name__} has taken {int(optimizer.iterations.numpy())} steps, and its "
            "moments would be lost. Shard it before the first."
        )
    config = optimizer.get_config()
    rate = optimizer._learning_rate
    made = importlib.import_module(f"tfbigbatch.optimizers.{_MODULES[package]}").AdamW(
        learning_rate=rate if callable(rate) else config["learning_rate"],
        weight_decay=config["weight_decay"] or 0.0,
        # Keras 3 alone has it, and a step is of the mean gradient there too.
        accumulation_steps=config.get("gradient_accumulation_steps") or 1,
        shard_updates=True,
        **{name: config[name] for name in _SAME if name in config},
    )
    for name, value in vars(optimizer).items():
        # What Keras' own method of that name excluded.
        if name.startswith("_exclude_from_weight_decay"):
            setattr(made, name, value)
    return made
