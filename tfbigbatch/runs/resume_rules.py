"""Config fields that may change on resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections

# The results of a step stay the same, except for rounding.
_SPLITS = ("accumulation_steps", "simulated_replicas")
_SAVING = ("keep_checkpoints", "keep_best")
# Memory for time, with the same gradients.
_MEMORY = ("model.recompute",)
# Likewise, but for AdamW: Keras' own has its state under other names.
_SHARDS = ("optimizer.shard_updates",)


def may_change(
    config: ml_collections.ConfigDict, mode: str = "train_and_eval", extends: bool = False
) -> tuple[str, ...]:
    """Names of the config fields that may change on resume, dotted; those of a phase may there too.

    The global batch may not change, but its division into micro-batches and replicas may. With Adasum it may not:
    Adasum adds the gradients of the parts in another way; nor with local steps, where each replica trains by itself.
    With batch normalisation another division gives other statistics, as another number of replicas does.

    Args:
      config: of the experiment.
      mode: of the trainer.
      extends: whether a finished run is trained for longer.
    """
    splits = () if config.optimizer.get("adasum") or config.optimizer.get("local_steps") else _SPLITS
    # A finished run may be evaluated on the split that its recipe was not chosen on.
    shards = () if config.optimizer.get("name") == "adamw" else _SHARDS
    evaluation = ("evaluate_on", "evaluation_batch_size", "evaluate_with_fresh_statistics") if mode == "eval" else ()
    return (*splits, *_SAVING, *_MEMORY, *shards, *evaluation, *(("duration",) if extends else ()))


def without(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A config without some of its fields, nor those of its phases.

    Args:
      config: plain nested dictionary.
      names: of the fields, dotted: 'seed', 'model.recompute'.
    """
    kept = _without(config, names)
    if isinstance(kept.get("phases"), list):
        kept["phases"] = [
            {name: value for name, value in phase.items() if name not in names} if isinstance(phase, dict) else phase
            for phase in kept["phases"]
        ]
    return kept


def _without(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    kept = {}
    for name, value in config.items():
        inner = [each.partition(".")[2] for each in names if each.startswith(f"{name}.")]
        if name not in names:
            kept[name] = _without(value, inner) if inner and isinstance(value, dict) else value
    return kept
