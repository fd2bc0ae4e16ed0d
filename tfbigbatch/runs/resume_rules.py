"""Config fields that may change on resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections


def may_change(
    config: ml_collections.ConfigDict, mode: str = "train_and_eval", extends: bool = False
) -> tuple[str, ...]:
    """Names of the config fields that may change on resume, dotted; those of a phase may there too.

    The global batch may not change, but its division into micro-batches and replicas may: the results of a step stay
    the same, except for rounding. With Adasum it may not: Adasum adds the gradients of the parts in another way; nor
    with local steps, where each replica trains by itself. With batch normalisation another division gives other
    statistics, as another number of replicas does.

    Args:
      config: of the experiment.
      mode: of the trainer.
      extends: True if a finished run is trained for longer.
    """
    # Recomputation is memory for time, with the same gradients.
    names = ["keep_checkpoints", "keep_best", "model.recompute"]
    if not (config.optimizer.get("adasum") or config.optimizer.get("local_steps")):
        names += ["accumulation_steps", "simulated_replicas"]
    # Keras' own AdamW has its state under other names.
    if config.optimizer.get("name") != "adamw":
        names.append("optimizer.shard_updates")
    # A finished run may be evaluated on the split that its recipe was not chosen on.
    if mode == "eval":
        names += ["evaluate_on", "evaluation_batch_size", "evaluate_with_fresh_statistics"]
    return (*names, *(["duration"] if extends else []))


def without(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A config without some of its fields, nor those of its phases.

    Args:
      config: plain nested dictionary.
      names: of the fields, dotted: 'seed', 'model.recompute'.
    """
    kept = {}
    for name, value in config.items():
        inner = [each.partition(".")[2] for each in names if each.startswith(f"{name}.")]
        if name == "phases" and isinstance(value, list):
            # The fields of a phase have dotted names.
            value = [{field: of for field, of in phase.items() if field not in names} for phase in value]
        if name not in names:
            kept[name] = without(value, inner) if inner and isinstance(value, dict) else value
    return kept
