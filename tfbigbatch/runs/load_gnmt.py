"""Loads a trained translation model, with its vocabulary, from its run directory."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from tfbigbatch.data.translation import manifest
from tfbigbatch.data.translation.vocabulary import Vocabulary
from tfbigbatch.errors import InputError
from tfbigbatch.models.gnmt.network import GNMT
from tfbigbatch.runs.load import load_run, run_config
from tfbigbatch.utils.home import expanded

_TASK = "gnmt"
_SEARCH = ("beam_size", "length_penalty", "coverage_penalty", "max_decoded")


@dataclasses.dataclass(frozen=True, eq=False)
class TrainedGnmt:
    """A trained translation model.

    Attributes:
      network: with the weights of a checkpoint.
      vocabulary: that it was trained with.
      search: the run's 'beam_size', 'length_penalty', 'coverage_penalty' and 'max_decoded'.
      step: of the checkpoint.
    """

    network: GNMT
    vocabulary: Vocabulary
    search: dict[str, Any]
    step: int


def load(model_dir: str, *, step: int | None = None, vocabulary: str | None = None) -> TrainedGnmt:
    """The trained model of a run directory.

    Args:
      model_dir: the run directory.
      step: of the checkpoint; None for the newest.
      vocabulary: path of a sentencepiece model, for a run directory without one.

    Raises:
      ValueError: the directory is not of a translation run, it has no such checkpoint, or the vocabulary is another
        than the run's.
    """
    task = run_config(expanded(model_dir)).get("task")
    if task != _TASK:
        raise InputError(f"--model_dir={model_dir} holds a run of task {task!r}; expected one of {_TASK}.")
    run = load_run(model_dir, "newest" if step is None else step)
    words = _vocabulary(run.directory, expanded(vocabulary))
    pieces = int(run.network.classifier.bias.shape[0])
    if len(words) != pieces:
        raise InputError(f"the network of {run.directory} has {pieces:,} pieces, and the vocabulary {len(words):,}.")
    return TrainedGnmt(run.network, words, {name: run.config.data[name] for name in _SEARCH}, run.step)


def _vocabulary(model_dir: str, given: str | None) -> Vocabulary:
    """The vocabulary of the run; the file `given` must be the same where the run directory has one."""
    path = os.path.join(model_dir, manifest.VOCABULARY)
    kept = Vocabulary.load(path) if os.path.exists(path) else None
    found = Vocabulary.load(given) if given is not None else kept
    if found is None:
        raise InputError(
            f"{model_dir} keeps no {manifest.VOCABULARY}. Copy the one that the run was trained with into it: "
            f"DATA_DIR/{manifest.VOCABULARY}."
        )
    if kept is not None and kept.digest != found.digest:
        raise InputError(f"{given} is the vocabulary of another model: the run was trained with {path}.")
    return found
