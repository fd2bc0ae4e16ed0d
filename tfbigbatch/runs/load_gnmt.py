"""Loads a trained translation model, with its vocabulary, from its run directory."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import tensorflow as tf
import tf_keras

from tfbigbatch.data.translation import manifest
from tfbigbatch.data.translation.vocabulary import Vocabulary
from tfbigbatch.errors import InputError
from tfbigbatch.experiment import completed, keras_policy, recorded_precision
from tfbigbatch.models.gnmt.network import GNMT
from tfbigbatch.runs import checkpoint_files
from tfbigbatch.runs.load import read_weights
from tfbigbatch.runs.run_directory import checked_config, read_json
from tfbigbatch.tasks import gnmt
from tfbigbatch.utils.home import expanded

_TASK = "gnmt"


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
    """The trained model of a run directory. Sets Keras' precision policy to the run's.

    Args:
      model_dir: the run directory.
      step: of the checkpoint; None for the newest.
      vocabulary: path of a sentencepiece model, for a run directory without one.

    Raises:
      ValueError: the directory is not of a translation run, it has no such checkpoint, or the vocabulary is another
        than the run's.
    """
    model_dir, vocabulary = expanded(model_dir), expanded(vocabulary)
    content = read_json(os.path.join(model_dir, "config.json"))
    if content is None:
        raise InputError(
            f"--model_dir={model_dir} holds no run: it has no config.json. Expected the directory of a run of the "
            "trainer, python -m tfbigbatch.train --model_dir=DIR."
        )
    config = completed(checked_config(content, os.path.join(model_dir, "config.json"))["config"])
    if config.get("task") != _TASK:
        raise InputError(
            f"--model_dir={model_dir} holds a run of task {config.get('task')!r}; expected one of {_TASK}."
        )
    path = _checkpoint(os.path.join(model_dir, "checkpoints"), step)
    words = _vocabulary(model_dir, vocabulary)
    tf_keras.mixed_precision.set_global_policy(keras_policy(recorded_precision(content)))
    network = gnmt.network_of(config["model"], len(words))
    _restore(network, path, len(words))
    search = {name: config["data"][name] for name in ("beam_size", "length_penalty", "coverage_penalty", "max_decoded")}
    return TrainedGnmt(network, words, search, checkpoint_files.step_of(path))


def _checkpoint(folder: str, step: int | None) -> str:
    """The path of a checkpoint, without the endings of its files."""
    found = {checkpoint_files.step_of(path): path for path in checkpoint_files.paths(folder)}
    if not found:
        raise InputError(f"{folder} holds no checkpoint. Train first, or give another --model_dir.")
    if step is None:
        return found[max(found)]
    if step not in found:
        raise InputError(
            f"--step={step}: {folder} has no such checkpoint; it has {', '.join(map(str, sorted(found)))}."
        )
    return found[step]


def _vocabulary(model_dir: str, given: str | None) -> Vocabulary:
    """The vocabulary of the run; the file `given` must be the same where the run directory has one."""
    path = os.path.join(model_dir, manifest.VOCABULARY)
    kept = Vocabulary.load(path) if os.path.exists(path) else None
    if given is None:
        if kept is None:
            raise InputError(
                f"{model_dir} keeps no {manifest.VOCABULARY}. Give the one that the run was trained with: "
                f"--vocabulary=DATA_DIR/{manifest.VOCABULARY}."
            )
        return kept
    found = Vocabulary.load(given)
    if kept is not None and kept.digest != found.digest:
        raise InputError(
            f"--vocabulary={given} is the vocabulary of another model: the run was trained with {path}. "
            "Leave the flag out."
        )
    return found


def _restore(network: GNMT, path: str, pieces: int) -> None:
    try:
        read_weights(network, path)
    except (AssertionError, ValueError) as error:
        raise InputError(
            f"checkpoint {path} does not fit config.json and a vocabulary of {pieces:,} pieces: one of them is of "
            f"another model. {str(error).strip().splitlines()[0]}"
        ) from None
    # TensorFlow turns data that ends too soon into Python's own error.
    except (tf.errors.OpError, IndexError) as error:
        raise InputError(
            f"checkpoint {path} is damaged ({str(error).strip().splitlines()[0]}). Name another with --step."
        ) from None
