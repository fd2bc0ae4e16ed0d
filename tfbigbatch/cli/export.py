"""Writes the trained network of a run as files that do without the trainer.

    tfbigbatch export runs/legw                        # writes runs/legw/export
    tfbigbatch export runs/legw --checkpoint=best --output=models/legw
    tfbigbatch export runs/legw --format=keras --overwrite

Writes a folder with model.keras, which Keras loads without this package; saved_model, with a serving signature that
takes JPEGs, token ids or arrays; model.weights.h5; and export.json, which says what they hold. The folder appears only
when it is complete.
See docs/export.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from tfbigbatch.config import execute
from tfbigbatch.errors import InputError
from tfbigbatch.export.formats import FORMATS
from tfbigbatch.run_directory.directory import RunDirectory


def define_flags() -> None:
    flags.DEFINE_string("checkpoint", "newest", "newest or best, by the target metric; or a step.")
    flags.DEFINE_string("output", None, "Folder to write. Default: export, in the run directory.")
    flags.DEFINE_list("format", [], f"One or more of {','.join(FORMATS)}. Default: all that can hold the network.")
    flags.DEFINE_bool("overwrite", False, "Replace an earlier export.")
    flags.DEFINE_string("data_dir", None, "Folder of the task's data, for a task of your own without network_facts.")
    flags.DEFINE_multi_string("register", [], "Experiment file that registers a task of your own; may be repeated.")


def main(folders: Sequence[str]) -> None:
    options = flags.FLAGS
    if len(folders) != 1:
        raise InputError(f"expected one run directory, not {len(folders)}: tfbigbatch export RUN_DIR; see --help.")
    RunDirectory(folders[0]).started()
    for file in options.register:
        execute(file)
    # Imported late: TensorFlow takes seconds to import.
    from tfbigbatch.export.run import export_run

    exported = export_run(
        folders[0],
        options.output,
        checkpoint=int(options.checkpoint) if options.checkpoint.isdecimal() else options.checkpoint,
        formats=options.format or None,
        overwrite=options.overwrite,
        data_dir=options.data_dir,
    )
    print(f"exported   the checkpoint of step {exported.step:,}")
    for name, path in exported.files.items():
        print(f"written    {path} ({name})")
    if exported.signature:
        print(f"signature  serving_default {exported.signature}")
    for name, reason in exported.skipped.items():
        print(f"skipped    {name}: {reason}")
