"""The run directory: the files of one run, which other tools read too.

config.json, status.json, metrics.jsonl, checkpoints/, best/, and TensorBoard's train/ and eval/; experiment.py, a copy
of an experiment file that this package does not ship; callbacks.json, of callbacks of the user. Some tasks add files
that are needed to use the trained model, and translations/. While a process writes there, .lock.
"""

from __future__ import annotations

import collections
import contextlib
import importlib.metadata
import json
import math
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tfbigbatch import __version__
from tfbigbatch.config.overrides import differences
from tfbigbatch.errors import InputError
from tfbigbatch.utils import files, folder_lock
from tfbigbatch.utils.files import atomic_write, write_json, write_text, writing_errors
from tfbigbatch.utils.home import expanded

RUNNING, DONE, DIVERGED, PREEMPTED = "running", "done", "diverged", "preempted"

_NUMBER = (int, float)
# What the two files hold where it is used: types, the fields of a dictionary ("*": any), the kind of all in a list.
_CONFIG: dict[str, Any] = {
    "config": {
        "task": str,
        "model": {"name": (str, type(None))},
        **dict.fromkeys(("data", "optimizer", "schedule", "ramp"), {}),
        **dict.fromkeys(("seed", "batch_size"), int),
        **dict.fromkeys(("duration", "evaluate_on"), str),
        "phases": [{}],
    },
    "versions": {"*": str},
    "network_facts": {},
    "extensions": [{"duration": str, "step": int, "total_steps": int}],
    "init_from": ({"path": str, "checkpoint": str}, type(None)),
    "mixed_precision": str,
}
_STATUS: dict[str, Any] = {
    **dict.fromkeys(("status", "reason"), str),
    **dict.fromkeys(("step", "total_steps"), int),
    "seconds": _NUMBER,
    "metrics": {"*": (*_NUMBER, type(None))},
    "best": {"metric": str, "step": int, "value": _NUMBER},
}


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of a JSON file, or None where there is none.

    Raises:
      ValueError: the file is not JSON, or holds null, which would be taken for a missing file.
    """
    if not os.path.exists(path):
        return None
    content = files.read_json(os.fspath(path))
    if content is None:
        raise InputError(f"{path} holds nothing but null; expected JSON that the trainer wrote.")
    return content


def checked_config(content: Any, path: str, needs: Sequence[str] = ()) -> dict[str, Any]:
    """The content of a config.json.

    Args:
      content: from the JSON file.
      path: of the file, for the error.
      needs: fields that the config must have.

    Raises:
      ValueError: it is not a dictionary that holds a config, or a field has a wrong type.
    """
    if not _fits(content, _CONFIG) or not {*needs} <= content.get("config", {}).keys() or "config" not in content:
        raise InputError(
            f"{path} is not of a run directory, or it is damaged. Name the folders that the trainer wrote, or restore "
            "the file."
        )
    return content


def checked_status(content: Any, path: str) -> dict[str, Any]:
    """The content of a status.json; {} for None. A metric that was not finite, null in the file, is NaN.

    Raises:
      ValueError: it is not a dictionary with a status and a step, or a field has a wrong type.
    """
    if content is None:
        return {}
    if not _fits(content, _STATUS) or not {"status", "step"} <= content.keys():
        raise InputError(
            f"{path} is not the status.json of a run, or it is damaged. Remove the file: the run resumes from its "
            "newest checkpoint, and counts its seconds from 0."
        )
    return {**content, "metrics": with_nan(content["metrics"])} if content.get("metrics") else content


def _fits(value: Any, kind: Any) -> bool:
    """True for a value from JSON of a kind, as in _CONFIG; a whole number is 0 to 2**63, and others are finite."""
    if isinstance(kind, tuple):
        return any(_fits(value, each) for each in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and all(_fits(each, kind[0]) and each.keys() >= kind[0].keys() for each in value)
    if isinstance(kind, dict):
        kinds = collections.defaultdict(lambda: kind.get("*", object), kind)
        return isinstance(value, dict) and all(_fits(each, kinds[name]) for name, each in value.items())
    if kind in _NUMBER:
        return type(value) is kind and (0 <= value < 2**63 if kind is int else abs(value) < 1e300)
    return isinstance(value, kind)


def writing(path: str) -> contextlib.AbstractContextManager[None]:
    """A context in which this process alone writes in a run directory; see `utils.folder_lock`.

    Raises:
      ValueError: another process writes there.
    """
    return folder_lock.locked(
        path,
        lambda holder: (
            f"--model_dir={path}: another run writes there: {holder}. Two would mix their metrics and break each "
            "other's checkpoints. Wait until it has ended, or end it; or choose another --model_dir."
        ),
    )


class RunDirectory:
    """Paths and small files of one run.

    Args:
      path: the directory; created by `open`.
      is_chief: only the chief of a cluster writes.
    """

    def __init__(self, path: str | os.PathLike[str], is_chief: bool = True) -> None:
        path = self.path = expanded(path)
        self.is_chief = is_chief
        self.checkpoints = os.path.join(path, "checkpoints")
        self.best = os.path.join(path, "best")
        self.metrics = os.path.join(path, "metrics.jsonl")
        self.translations = os.path.join(path, "translations")
        self._config = os.path.join(path, "config.json")
        self._status = os.path.join(path, "status.json")

    def check(self, config: Mapping[str, Any], but: Sequence[str] = ()) -> list[str]:
        """Checks that the directory is new or of this config.

        Args:
          config: plain nested dictionary, resolved.
          but: top-level fields, of the config and of its phases, that may differ.

        Returns:
          A line for each field that differs.

        Raises:
          ValueError: another field differs; the message lists them.
        """
        before = self.content()
        if before is None:
            return []
        stored, given = before["config"], json.loads(json.dumps(config))
        changed = differences(_without(stored, but), _without(given, but))
        if changed:
            raise InputError(
                f"--model_dir={self.path} holds a run of another config; the fields that differ:\n  "
                + "\n  ".join(changed)
                + "\nRun it with the config that it was started with (the flag --model_dir alone reads it), or choose "
                "another --model_dir."
            )
        return differences(stored, given)

    def check_kept(self, run_files: Mapping[str, bytes]) -> None:
        """Checks that the data's files are those that the run began with.

        Args:
          run_files: content by name; see `keep`.

        Raises:
          ValueError: the directory holds another file of the same name.
        """
        for name, content in run_files.items():
            path = os.path.join(self.path, name)
            if os.path.exists(path):
                with files.reading_errors(path):
                    before = files.read_bytes(path)
                if before != content:
                    raise InputError(
                        f"{path} is not the {name} of the data: the run began with other data, and its network does "
                        "not fit this. Give the --data_dir that it began with, or choose another --model_dir."
                    )

    def keep(self, run_files: Mapping[str, bytes]) -> None:
        """Writes the files of the data that are needed to use the trained model, where they are missing.

        Args:
          run_files: content by name, such as a vocabulary.
        """
        for name, content in run_files.items() if self.is_chief else ():
            path = os.path.join(self.path, name)
            if not os.path.exists(path):
                with writing_errors(path):
                    atomic_write(path, lambda file, content=content: file.write(content))  # type: ignore[misc]

    def write_translations(self, split: str, step: int, lines: Sequence[str]) -> None:
        """Writes the network's translations of a held-out split after `step`, a line for each sentence."""
        if not self.is_chief:
            return
        with writing_errors(self.translations):
            os.makedirs(self.translations, exist_ok=True)
        text = "".join(f"{line}\n" for line in lines)
        write_text(os.path.join(self.translations, f"{split}-{step:08d}.txt"), text)

    def open(self, config: Mapping[str, Any], devices: Sequence[str], more: Mapping[str, Any] | None = None) -> None:
        """Creates the directory and writes config.json, where they are missing.

        Args:
          config: plain nested dictionary, resolved.
          devices: names of the devices.
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
                "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                **(more or {}),
            }
            write_json(self._config, content)

    def content(self) -> dict[str, Any] | None:
        """The content of config.json: 'config', 'data_dir', 'init_from', 'extensions', ...; None before the start.

        Raises:
          ValueError: the file is not of a run.
        """
        content = read_json(self._config)
        return None if content is None else checked_config(content, self._config)

    def started(self) -> dict[str, Any]:
        """The content of config.json of a run that was started.

        Raises:
          ValueError: the directory holds no run, or the file is not of a run.
        """
        content = self.content()
        if content is None:
            raise InputError(
                f"{self.path} holds no run: it has no config.json. Give the --model_dir of a run, or with "
                "--config an experiment to train."
            )
        return content

    def update(self, content: Mapping[str, Any]) -> None:
        """Replaces config.json."""
        if self.is_chief:
            write_json(self._config, content)

    def status(self) -> dict[str, Any]:
        """The content of status.json; empty before the first.

        Raises:
          ValueError: it is not the output of `write_status`.
        """
        return checked_status(read_json(self._status), self._status)

    def write_status(self, status: str, **fields: Any) -> None:
        """Replaces status.json; `status` is RUNNING, DONE, DIVERGED or PREEMPTED."""
        if self.is_chief:
            if "metrics" in fields:
                fields["metrics"] = without_non_finite(fields["metrics"])
            write_json(self._status, {"status": status, **fields})


def _without(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
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
            kept[name] = _without(value, inner) if inner and isinstance(value, dict) else value
    return kept


def without_non_finite(values: Mapping[str, float]) -> dict[str, float | None]:
    """The values with None for NaN and infinity, which JSON does not have."""
    return {name: float(value) if math.isfinite(value) else None for name, value in values.items()}


def with_nan(values: Mapping[str, float | None]) -> dict[str, float]:
    """The values as `without_non_finite` wrote them, with NaN for None."""
    return {name: math.nan if value is None else value for name, value in values.items()}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result depends on."""
    # Keras 3 is not imported for it: that takes a second, and a run of Keras 2 does without.
    packages = {"keras": importlib.metadata.version("keras")}
    # TensorFlow's distributions have several names.
    packages |= {name: sys.modules[name].__version__ for name in ("numpy", "tensorflow", "keras")}
    return {"tfbigbatch": __version__, "python": platform.python_version(), **packages}
