"""Finished runs in one small file, for a sweep that continues without their run directories."""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from tfbigbatch.config.fields import completed
from tfbigbatch.config.overrides import compared
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory.directory import checked_config, checked_status, read_json, writing
from tfbigbatch.run_directory.metrics_log import read_rows
from tfbigbatch.sweeps.sweep import ENDED
from tfbigbatch.utils.files import MOST_BYTES, atomic_write, read_bytes, write_json, write_text, writing_errors

_UNREADABLE = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError)


class ResultsCache:
    """A JSON Lines file of finished and diverged runs: config, versions, status and evaluations of each.

    Checkpoints, TensorBoard events and the training log are not kept: tables, results and plots do not need them. Nor
    are paths of this machine, of the experiment file and of the data.

    Args:
      path: of the file, which need not exist yet; compressed by gzip where it ends in .gz.

    Raises:
      ValueError: the file holds something else.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._runs: dict[str, dict[str, Any]] = {}
        if not os.path.exists(path):
            return
        try:
            for line in _read(path).splitlines():
                run = json.loads(line)
                checked_status(run["status"], path)
                rows = run["evaluations"]
                if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                    raise TypeError("its evaluations are not a list of rows")
                self._runs[_key(checked_config(run["started"], path)["config"])] = run
        except _UNREADABLE as error:
            raise InputError(
                f"{path} cannot be read as a results cache ({type(error).__name__}: {error}); expected the file that "
                "--results_cache wrote. Name another, or move it away."
            ) from None

    def restore(self, directory: str, config: Mapping[str, Any]) -> bool:
        """Writes a run directory from the file, if the directory does not exist and the file has a run of this config.

        Args:
          directory: path of the run directory.
          config: plain nested dictionary, resolved.

        Returns:
          True if it was written.
        """
        run = None if os.path.exists(os.path.join(directory, "config.json")) else self._runs.get(_key(config))
        if run is None:
            return False
        # Of the fields of today, which readers of run directories compare.
        started = {**run["started"], "config": completed(run["started"]["config"])}
        with writing(directory):
            write_text(os.path.join(directory, "metrics.jsonl"), _lines(run["evaluations"]))
            write_json(os.path.join(directory, "config.json"), started)
            # Last: it marks the directory as complete.
            write_json(os.path.join(directory, "status.json"), run["status"])
        return True

    def keep(self, directories: Iterable[str]) -> None:
        """Adds the finished and diverged runs of these directories, and rewrites the file."""
        for directory in directories:
            started = read_json(os.path.join(directory, "config.json"))
            status = read_json(os.path.join(directory, "status.json")) or {}
            if started is None or status.get("status") not in ENDED:
                continue
            rows = read_rows(os.path.join(directory, "metrics.jsonl"))
            evaluations = [row for row in rows if row["split"] == "eval"]
            self._runs[_key(started["config"])] = {"started": started, "status": status, "evaluations": evaluations}
        runs = (self._runs[key] for key in sorted(self._runs))
        content = _lines({**run, "started": _without_paths(run["started"])} for run in runs).encode()
        if self._path.endswith(".gz"):
            # The same runs give the same bytes.
            content = gzip.compress(content, mtime=0)
        with writing_errors(self._path):
            atomic_write(self._path, lambda file: file.write(content))


def _key(config: Mapping[str, Any]) -> str:
    """Equal for runs with the same completed config."""
    return json.dumps(compared(completed(json.loads(json.dumps(config)))), sort_keys=True)


def _without_paths(started: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a run's config.json without paths of this machine."""
    kept = {name: value for name, value in started.items() if name != "data_dir"}
    return {**kept, "config": {**kept["config"], "experiment": ""}}


def _read(path: str) -> str:
    content = read_bytes(path)
    if path.endswith(".gz"):
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes uncompressed")
    return content.decode()


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
