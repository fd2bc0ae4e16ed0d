"""Exports the trained network of a run directory: a folder of files, written whole or not at all."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

from tfbigbatch.errors import first_line
from tfbigbatch.export.formats import ABOUT, FORMATS, NotExportable, check_formats, folder_of
from tfbigbatch.export.keras_layers import in_keras_layers
from tfbigbatch.export.signatures import write_saved_model
from tfbigbatch.run_directory.directory import versions, without_non_finite
from tfbigbatch.run_directory.load import LoadedRun, load_run
from tfbigbatch.tasks.base import CLASSES
from tfbigbatch.utils.files import atomic_folder, read_json, write_json
from tfbigbatch.utils.folder_lock import locked
from tfbigbatch.utils.home import expanded


@dataclasses.dataclass(frozen=True)
class Exported:
    """The files of an export.

    Attributes:
      folder: that holds the files.
      files: path of each format's file or folder.
      skipped: why a format was not written, by format.
      step: of the checkpoint.
      signature: what the SavedModel takes and gives, in a sentence; "" without a SavedModel.
    """

    folder: str
    files: dict[str, str]
    skipped: dict[str, str]
    step: int
    signature: str = ""


def export_run(
    directory: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    checkpoint: str | int = "newest",
    formats: Iterable[str] | None = None,
    overwrite: bool = False,
    data_dir: str | None = None,
) -> Exported:
    """Writes the trained network of a run as files that do without the trainer.

    Args:
      directory: the run directory.
      output: folder to write; None for `export` in the run directory.
      checkpoint, data_dir: see `run_directory.load.load_run`.
      formats: names of `FORMATS`; None for all that the network can be written in.
      overwrite: replace an earlier export in this folder.

    Raises:
      ValueError: the folder exists, the run cannot be loaded, or a format that was named cannot hold the network.
    """
    named = None if formats is None else check_formats(formats)
    folder = folder_of(expanded(directory), expanded(output), overwrite)
    run = load_run(directory, checkpoint, data_dir=data_dir)
    path = os.path.join(run.directory, CLASSES)
    names = read_json(path) if os.path.exists(path) else None
    classes = [str(name) for name in names] if isinstance(names, list) else None
    skipped: dict[str, str] = {}
    signature = ""
    parent, last = os.path.split(os.path.abspath(folder))
    busy = f"output {folder} is being written by another export: %s. Wait until it has ended."
    with locked(parent, lambda holder: busy % holder, name=f".{last}.lock"), atomic_folder(folder) as part:
        for name in named or FORMATS:
            try:
                found = _WRITERS[name](run, os.path.join(part, FORMATS[name]), classes)
            except NotExportable as error:
                if named is not None:
                    raise
                skipped[name] = str(error)
            else:
                signature = found or signature
        written = [name for name in named or FORMATS if name not in skipped]
        about = {
            "run": os.path.abspath(run.directory),
            "task": run.config.task,
            "step": run.step,
            "metrics": without_non_finite(run.metrics),
            "files": {name: FORMATS[name] for name in written},
            "skipped": skipped,
            "signature": signature,
            "classes": classes,
            "versions": versions(),
        }
        write_json(os.path.join(part, ABOUT), about)
    files = {name: os.path.join(folder, FORMATS[name]) for name in written}
    return Exported(folder, files, skipped, run.step, signature)


def _write_keras(run: LoadedRun, path: str, classes: Any) -> None:
    model = in_keras_layers(run.network)
    try:
        model.save(path)
    # Layers of a user may raise anything.
    except Exception as error:
        raise NotExportable(
            f"model {model.name!r} cannot be saved by Keras: {first_line(error)} A layer of your own needs "
            "get_config() and @keras.saving.register_keras_serializable(). Or export it as saved_model or weights."
        ) from None


def _write_weights(run: LoadedRun, path: str, classes: Any) -> None:
    run.network.save_weights(path)


_WRITERS = {"keras": _write_keras, "saved_model": write_saved_model, "weights": _write_weights}
