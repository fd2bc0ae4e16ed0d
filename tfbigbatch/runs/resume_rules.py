"""What may differ between the command that began a run and one that goes on with it."""

# What is computed from one update to the next stays the same, but for rounding.
_SPLITS = ("accumulation_steps", "simulated_replicas")
_HOW_IT_IS_KEPT = ("asynchronous_saving", "keep_checkpoints")


def may_change(config, mode="train_and_eval"):
    """The fields of a config that may have another value than at the run's start.

    The global batch is not among them, but how it is divided is: into micro-batches, as over replicas, whose number no
    config holds. Not so with Adasum, which adds up the gradients of each part otherwise. Where a network normalises
    over its batch, another division is another normalisation, as it is with another number of replicas.

    Args:
      config: of the experiment.
      mode: the trainer's.

    Returns:
      tuple of names; of 'accumulation_steps' that of each phase too.
    """
    splits = () if config.optimizer.get("adasum") else _SPLITS
    # A finished run may be scored on the set that it was not chosen by.
    return (*splits, *_HOW_IT_IS_KEPT, *(("evaluate_on",) if mode == "eval" else ()))


def without(config, names):
    """A plain config without some of its top-level fields, and without those in its phases.

    Args:
      config: plain nested dictionary.
      names: of the fields.
    """
    kept = {name: value for name, value in config.items() if name not in names}
    if isinstance(kept.get("phases"), list):
        kept["phases"] = [
            {name: value for name, value in phase.items() if name not in names} if isinstance(phase, dict) else phase
            for phase in kept["phases"]
        ]
    return kept
