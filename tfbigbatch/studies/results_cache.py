"""Ended runs in one small file: a long series goes on where its run directories are not."""

import json
import os

from tfbigbatch import experiment
from tfbigbatch.errors import InputError
from tfbigbatch.runs.metrics_log import read_rows
from tfbigbatch.runs.run_directory import DIVERGED, DONE, read_json
from tfbigbatch.runs.stored_run import checked_config, checked_status
from tfbigbatch.utils.files import write_json, write_text

ENDED = (DONE, DIVERGED)


class EndedRuns:
    """The file: a line a run, with its config, versions, status and evaluations.

    Not in it: checkpoints, TensorBoard's events, and what was logged between evaluations. Tables, results and
    plots need none of these.

    Args:
      path: the file; it need not exist yet.

    Raises:
      ValueError: the file is there and holds something else.
    """

    def __init__(self, path):
        self._path = path
        self._runs = {}
        if not os.path.exists(path):
            return
        try:
            with open(path, encoding="utf-8") as file:
                for line in file:
                    run = json.loads(line)
                    checked_status(run["status"], path)
                    _check_rows(run["evaluations"])
                    self._runs[_key(checked_config(run["started"], path)["config"])] = {
                        part: run[part] for part in ("started", "status", "evaluations")
                    }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{path} cannot be read as ended runs ({type(error).__name__}: {error}); expected the file that "
                "--ended_runs wrote. Name another, or take it out of the way."
            ) from None

    def restore(self, directory, config):
        """Makes a run directory again, if there is none yet and a run of this config is in the file.

        Args:
          directory: path of the run directory.
          config: plain nested dictionary, resolved.

        Returns:
          bool, whether it was.
        """
        run = self._runs.get(_key(config))
        if run is None or os.path.exists(os.path.join(directory, "config.json")):
            return False
        os.makedirs(directory, exist_ok=True)
        write_text(os.path.join(directory, "metrics.jsonl"), _lines(run["evaluations"]))
        write_json(os.path.join(directory, "config.json"), run["started"])
        # The last, as a directory without it has not ended.
        write_json(os.path.join(directory, "status.json"), run["status"])
        return True

    def keep(self, directories):
        """Adds the runs of these directories that have ended, and writes the file whole."""
        for directory in directories:
            started = read_json(os.path.join(directory, "config.json"))
            status = read_json(os.path.join(directory, "status.json")) or {}
            if started is None or status.get("status") not in ENDED:
                continue
            rows = read_rows(os.path.join(directory, "metrics.jsonl"))
            evaluations = [row for row in rows if row["split"] == "eval"]
            self._runs[_key(started["config"])] = {
                "started": started,
                "status": status,
                "evaluations": evaluations,
            }
        write_text(self._path, _lines(self._runs[key] for key in sorted(self._runs)))


def _key(config):
    """Of runs that would give the same."""
    return json.dumps(experiment.completed(json.loads(json.dumps(config))), sort_keys=True)


def _check_rows(rows):
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TypeError("its evaluations are not a list of rows")


def _lines(rows):
    return "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
