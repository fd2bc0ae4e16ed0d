"""Loads a trained translation model, with its vocabulary, from its run directory."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from tfbigbatch.data.translation import manifest
from tfbigbatch.data.translation.vocabulary import Vocabulary
from tfbigbatch.errors import InputError
from tfbigbatch.models.gnmt import GNMT
from tfbigbatch.run_directory.load import load_run, run_config
from tfbigbatch.utils.home import expanded

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


def load(model_dir: str, *, step: int | None = None) -> TrainedGnmt:
    """The trained model of a run directory; `step` is of the checkpoint, None for the newest.

    Raises:
      ValueError: the directory is not of a translation run, or it has no such checkpoint or no vocabulary of the
        network's size.
    """
    task = run_config(expanded(model_dir)).get("task")
    if task != "gnmt":
        raise InputError(f"--model_dir={model_dir} holds a run of task {task!r}; expected one of gnmt.")
    run = load_run(model_dir, "newest" if step is None else step)
    path = os.path.join(run.directory, manifest.VOCABULARY)
    if not os.path.exists(path):
        raise InputError(
            f"{run.directory} keeps no {manifest.VOCABULARY}. Copy the one that the run was trained with into it: "
            f"DATA_DIR/{manifest.VOCABULARY}."
        )
    words, pieces = Vocabulary.load(path), int(run.network.classifier.bias.shape[0])
    if len(words) != pieces:
        raise InputError(f"the network of {run.directory} has {pieces:,} pieces, and the vocabulary {len(words):,}.")
    return TrainedGnmt(run.network, words, {name: run.config.data[name] for name in _SEARCH}, run.step)
