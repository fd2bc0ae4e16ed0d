"""The run directory: everything that happened in one run, in files that other tools read.

config.json, status.json, metrics.jsonl, checkpoints/, TensorBoard's train/ and eval/; and of a task that has such,
the files that its outputs cannot be read without, and translations/.
"""

import json
import os
import platform
import subprocess
import time

from tfbigbatch import __version__
from tfbigbatch.errors import InputError
from tfbigbatch.experiment import completed, differences
from tfbigbatch.runs.resume_rules import without
from tfbigbatch.runs.stored_run import checked_config, checked_status
from tfbigbatch.utils.files import atomic_write, write_json, write_text, writing_errors

RUNNING, DONE, DIVERGED, PREEMPTED = "running", "done", "diverged", "preempted"


def read_json(path):
    """The content of a JSON file, or None where there is none.

    Raises:
      ValueError: the file is not JSON, or says null, which would pass for no file.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}); expected JSON that the trainer wrote.") from None
    if content is None:
        raise InputError(f"{path} holds nothing but null; expected JSON that the trainer wrote.")
    return content


class RunDirectory:
    """Paths and small files of one run.

    Args:
      path: the directory; made by `open`.
      is_chief: only the chief of a cluster writes.
    """

    def __init__(self, path, is_chief=True):
        self.path = path
        self.is_chief = is_chief
        self.checkpoints = os.path.join(path, "checkpoints")
        self.metrics = os.path.join(path, "metrics.jsonl")
        self.translations = os.path.join(path, "translations")
        self._config = os.path.join(path, "config.json")
        self._status = os.path.join(path, "status.json")

    def check(self, config, but=()):
        """Raises ValueError, with the fields that differ, where the directory is of another config.

        Args:
          config: plain nested dictionary, resolved.
          but: names of top-level fields, and of those of phases, that may differ.

        Returns:
          Lines on such fields that do.
        """
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise InputError(f"--model_dir={self.path} is a file; expected a directory, or a path that does not exist.")
        before = read_json(self._config)
        if before is None:
            return []
        stored = checked_config(before, self._config)["config"]
        one, two = completed(stored), json.loads(json.dumps(config))
        changed = differences(without(one, but), without(two, but))
        if changed:
            raise InputError(
                f"--model_dir={self.path} holds a run of another config; the fields that differ:\n  "
                + "\n  ".join(changed)
                + "\nRun it with the config that it was started with, or choose another --model_dir."
            )
        return differences(one, two)

    def check_kept(self, files):
        """Raises ValueError where the directory keeps another file of the same name: the run began with other data.

        Args:
          files: dictionary from names to bytes, of `keep`.
        """
        for name, content in files.items():
            path = os.path.join(self.path, name)
            if os.path.exists(path):
                with open(path, "rb") as file:
                    before = file.read()
                if before != content:
                    raise InputError(
                        f"{path} is not the {name} of the data: the run began with other data, and its network would "
                        "not understand this. Give the --data_dir that it began with, or choose another --model_dir."
                    )

    def keep(self, files):
        """Writes the files that are not there yet: what the network's outputs cannot be read without.

        Args:
          files: dictionary from names to bytes, such as a vocabulary.
        """
        for name, content in files.items() if self.is_chief else ():
            path = os.path.join(self.path, name)
            if not os.path.exists(path):
                with writing_errors(path):
                    atomic_write(path, lambda file, content=content: file.write(content))

    def write_translations(self, split, step, lines):
        """Writes what the network made of the sentences of a held-out set after update `step`: a line for each."""
        if not self.is_chief:
            return
        with writing_errors(self.translations):
            os.makedirs(self.translations, exist_ok=True)
        text = "".join(f"{line}\n" for line in lines)
        write_text(os.path.join(self.translations, f"{split}-{step:08d}.txt"), text)

    def open(self, config, devices, more=None):
        """Makes the directory and writes config.json, if it is not there yet.

        Args:
          config: plain nested dictionary, resolved.
          devices: list of the devices' names.
          more: None, or further fields of config.json.
        """
        if not self.is_chief:
            return
        with writing_errors(self.path):
            os.makedirs(self.checkpoints, exist_ok=True)
        if not os.path.exists(self._config):
            content = {
                "config": config,
                "versions": versions(),
                "devices": devices,
                "git_revision": _git_revision(),
                "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                **(more or {}),
            }
            write_json(self._config, content)

    def status(self):
        """The content of status.json; empty before the first.

        Raises:
          ValueError: it is not what `write_status` writes.
        """
        return checked_status(read_json(self._status), self._status)

    def write_status(self, status, **fields):
        """Replaces status.json; `status` is running, done, diverged or preempted."""
        if self.is_chief:
            write_json(self._status, {"status": status, **fields})


def versions():
    import keras
    import numpy
    import tensorflow
    import tf_keras

    packages = {module.__name__: module.__version__ for module in (keras, numpy, tensorflow, tf_keras)}
    return {"tfbigbatch": __version__, "python": platform.python_version(), **packages}


def _git_revision():
    """The revision of the checkout that the package lies in, with '+changes'; None outside of one."""
    here = os.path.dirname(os.path.abspath(__file__))
    try:
        revision, changes = (
            subprocess.run(
                # Without locks it only reads: else it may write the checkout's index anew.
                ["git", "--no-optional-locks", *arguments],
                cwd=here,
                capture_output=True,
                text=True,
                check=True,
                timeout=10,
            ).stdout
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return revision.strip() + ("+changes" if changes.strip() else "")
