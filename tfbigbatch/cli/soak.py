"""Injects failures into runs on the digits, and prints goodput, repeated steps, and whether the weights are the same.

    tfbigbatch soak --model_dir=runs/soak --results=results/reliability/soak --minutes=120

For 1, 2 and 4 processes: a run that nothing happens to, then a run for each kind of failure, at random times, a mean of
--mean_time_between_failures seconds after each other. Processes that end are started again until the run is done; its
checkpoint then has to be the undisturbed run's in all bits. Each run that ends adds a line to RESULTS.jsonl, and
RESULTS.md is the table of them. The same command does the runs that are missing; --minutes is the time of one call.

kill, freeze, terminate (SIGTERM), disk_full, slow_disk, lost_network, damaged_checkpoint and slow_worker are described
in tfbigbatch/cluster/faults.py; mixed takes any of them. Leaks of memory and files: tools/soak.py.
"""

from __future__ import annotations

import collections
import functools
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

from absl import flags

from tfbigbatch.cluster import faults
from tfbigbatch.errors import InputError, Preempted, WorkerLost
from tfbigbatch.experiment.fields import CONTINUOUS
from tfbigbatch.runs import checkpoint_files
from tfbigbatch.runs.run_directory import DONE, RunDirectory, writing
from tfbigbatch.utils import command
from tfbigbatch.utils.files import open_regular, reading_errors, write_text, writing_errors
from tfbigbatch.utils.signals import collecting_signals
from tfbigbatch.utils.tensorflow_paths import literal_path

_NONE, _MIXED = "none", "mixed"
_UNTIL = 3600.0  # seconds of a run, at most
# As the workers' watchdog has it: a cluster that a failure left waiting starts again.
_STALL = 60
_PROGRAM = (
    "import os, sys; from tfbigbatch.cluster import faults; faults.slow_disk(os.environ[faults.SWITCH]); "
    "from tfbigbatch.cli.main import run_command; run_command('train', sys.argv[1:], 'tfbigbatch train')"
)


def define_flags() -> None:
    flags.DEFINE_float("minutes", 120.0, "After these, no further run is begun.", lower_bound=0.0)
    flags.DEFINE_list("workers", ["1", "2", "4"], "Numbers of processes.")
    flags.DEFINE_list("failures", [*faults.KINDS, _MIXED], "Kinds of failures, a run for each.")
    flags.DEFINE_float("mean_time_between_failures", 30.0, "Seconds.", lower_bound=1.0)
    flags.DEFINE_list("steps", ["10000", "2000", "1000"], "Steps of a run, for each of --workers.")
    flags.DEFINE_string("checkpoint_every", CONTINUOUS, "Of the runs: a duration, or continuous.")
    flags.DEFINE_integer("seed", 0, "Of the failures.")
    flags.DEFINE_string("model_dir", None, "Folder of the run directories.", required=True)
    flags.DEFINE_string("results", None, "Path of the results, without ending. Default: soak in --model_dir.")
    flags.DEFINE_list("flags", [], "Further flags of the trainer, such as --config.steps_per_execution=10.")


def main(unused: Sequence[str]) -> None:
    options = flags.FLAGS
    cells = _cells(options)
    path = options.results or os.path.join(options.model_dir, "soak")
    for folder in (options.model_dir, os.path.dirname(path) or "."):
        with writing_errors(folder):
            os.makedirs(folder, exist_ok=True)
    end = time.monotonic() + 60.0 * options.minutes
    with collecting_signals() as signals:
        for workers, steps, kind in cells:
            soak = _Soak(options, workers, steps, kind, signals)
            # The undisturbed run is needed itself, and not its row alone.
            is_there = kind != _NONE or soak.is_done()
            if is_there and _row_of(_rows(path), workers, steps, kind, options.checkpoint_every):
                continue
            if time.monotonic() > end or signals:
                break
            row = soak.row()
            if row is None:
                break
            with writing_errors(path), open(f"{path}.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            write_text(f"{path}.md", "\n".join(table(_rows(path))) + "\n")
            print(table([row])[-1], flush=True)
        if signals:
            raise Preempted("stopped on request; the same command does the runs that are missing.")
    print("\n".join(table(_rows(path))))
    missing = [cell for cell in cells if not _row_of(_rows(path), *cell, options.checkpoint_every)]
    if missing:
        print(f"{len(missing)} of {len(cells)} runs are missing: the same command does them.")


def _cells(options: flags.FlagValues) -> list[tuple[int, int, str]]:
    """(processes, steps, kind of failure) of each run; the undisturbed ones are before those compared with them."""
    counts = command.numbers("workers", options.workers, int)
    steps = command.numbers("steps", options.steps, int)
    if len(steps) == 1:
        steps = steps * len(counts)
    if len(steps) != len(counts) or min([*counts, *steps], default=0) < 1:
        raise InputError(
            f"--steps={','.join(options.steps)} for --workers={','.join(options.workers)}: expected as many numbers, "
            "or one, each 1 or more."
        )
    unknown = [kind for kind in options.failures if kind not in (*faults.KINDS, _MIXED)]
    if unknown:
        raise InputError(f"--failures: {unknown[0]!r} is unknown; expected {', '.join([*faults.KINDS, _MIXED])}.")
    return [
        (count, of_run, kind)
        for count, of_run in zip(counts, steps)
        for kind in (_NONE, *options.failures)
        if kind in (_NONE, _MIXED) or kind in faults.kinds_for(count)
    ]


class _Soak:
    """One run with failures of one kind."""

    def __init__(self, options: flags.FlagValues, workers: int, steps: int, kind: str, signals: list[int]) -> None:
        self._options, self._workers, self._steps, self._kind, self._signals = options, workers, steps, kind, signals
        every = options.checkpoint_every.replace(" ", "_")
        self._folder = os.path.join(options.model_dir, f"{every}-{workers}-{steps}")
        self._directory = os.path.join(self._folder, kind)
        # The same failures at the same times, whatever was run before.
        self._choices = random.Random(f"{options.seed} {workers} {kind}")
        self._failures: collections.Counter[str] = collections.Counter()
        self._codes: collections.Counter[str] = collections.Counter()
        self._expected_error = False

    def is_done(self) -> bool:
        """Whether its directory holds the finished run."""
        return RunDirectory(self._directory).status().get("status") == DONE

    def row(self) -> dict[str, Any] | None:
        """The run's row of the results; None where it was stopped on request.

        Raises:
          ValueError: a process ended with an error that no failure explains, or the run does not end.
        """
        # What a call before left is of failures that are not counted.
        with writing(self._directory):
            shutil.rmtree(self._directory, ignore_errors=True)
        os.makedirs(self._directory)
        began = time.monotonic()
        while True:
            code = self._start()
            if self._signals:
                return None
            self._codes[str(code)] += 1
            if code == 0:
                return self._ended(time.monotonic() - began)
            expected = code < 0 or code in (Preempted.exit_code, WorkerLost.exit_code) or self._expected_error
            if not (expected and self._failures) or time.monotonic() - began > _UNTIL:
                raise InputError(
                    f"{self._directory}: the processes ended with code {code}, {sum(self._failures.values())} failures "
                    f"after the start; see {self._folder}/output-{self._kind}/output.txt."
                )

    def _start(self) -> int:
        """Starts all processes, and injects failures until they end; returns their exit code."""
        output = os.path.join(self._folder, f"output-{self._kind}")
        os.makedirs(output, exist_ok=True)
        workers = faults.Workers([sys.executable, "-c", _PROGRAM, *self._arguments()], self._workers, output)
        mean = self._options.mean_time_between_failures
        self._expected_error = False
        try:
            while True:
                when = time.monotonic() + self._choices.expovariate(1.0 / mean)
                code = workers.outcome(functools.partial(self._is_due, when))
                if code is not None or self._signals:
                    return code or 0
                self._inject(workers)
        finally:
            workers.close()

    def _is_due(self, when: float) -> bool:
        return bool(self._signals) or (self._kind != _NONE and time.monotonic() > when)

    def _inject(self, workers: faults.Workers) -> None:
        kind = self._kind
        if kind == _MIXED:
            kind = self._choices.choice(faults.kinds_for(self._workers))
        if faults.inject(kind, workers, RunDirectory(self._directory).checkpoints, self._choices):
            self._failures[kind] += 1
            self._expected_error |= kind == "disk_full"

    def _arguments(self) -> list[str]:
        return [
            "--config=digits/lstm_lamb",
            f"--model_dir={self._directory}",
            f"--config.duration={self._steps} steps",
            "--config.batch_size=64",
            "--config.evaluation_batch_size=60",
            f"--config.evaluate_every={max(1, self._steps // 4)} steps",
            f"--config.checkpoint_every={self._options.checkpoint_every}",
            *([f"--stall_timeout={_STALL}"] if self._workers > 1 else []),
            *self._options.flags,
        ]

    def _ended(self, seconds: float) -> dict[str, Any]:
        status = RunDirectory(self._directory).status()
        if not self.is_done():
            raise InputError(f"{self._directory}: the processes ended, and status.json says {status.get('status')}.")
        undisturbed = os.path.join(self._folder, _NONE)
        different = [] if self._kind == _NONE else different_values(undisturbed, self._directory)
        return {
            "workers": self._workers,
            "steps": self._steps,
            "failures": self._kind,
            "checkpoint_every": self._options.checkpoint_every,
            "mean_time_between_failures": self._options.mean_time_between_failures,
            "seed": self._options.seed,
            "injected": dict(self._failures),
            "exit_codes": dict(self._codes),
            "wall_seconds": round(seconds, 1),
            "undisturbed_seconds": RunDirectory(undisturbed).status()["goodput"]["wall"],
            "goodput": status["goodput"],
            "same_bits": not different,
            "different": different[:5],
        }


def different_values(one: str, other: str) -> list[str]:
    """The names of the values in which the newest checkpoints of two runs differ; how often was saved does not count.

    Raises:
      ValueError: a run has no checkpoint.
    """
    import numpy as np
    import tensorflow as tf

    newest = [next(iter(checkpoint_files.paths(RunDirectory(each).checkpoints)), None) for each in (one, other)]
    if None in newest:
        raise InputError(f"{one} or {other} holds no checkpoint to compare. Remove both, and run the command again.")
    first, second = (tf.train.load_checkpoint(literal_path(path)) for path in newest if path)
    names = first.get_variable_to_dtype_map().keys() | second.get_variable_to_dtype_map().keys()
    compared = [name for name in sorted(names) if not name.startswith(("save_counter", "_CHECKPOINTABLE_OBJECT_GRAPH"))]

    def same(name: str) -> bool:
        if not (first.has_tensor(name) and second.has_tensor(name)):
            return False
        values = [np.asarray(each.get_tensor(name)) for each in (first, second)]
        return values[0].dtype == values[1].dtype and values[0].tobytes() == values[1].tobytes()

    return [name for name in compared if not same(name)]


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of a Markdown table of rows of the results.

    'of undisturbed' is the wall time of the run without failures over that of this one.
    """
    lines = [
        "| processes | failures | injected | starts | goodput | of undisturbed | steps repeated | of all | restart s | "
        "same bits |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        goodput = row["goodput"]
        every = row["checkpoint_every"]
        name = row["failures"] if every == CONTINUOUS else f"{row['failures']}, every {every}"
        cells = [
            str(row["workers"]),
            name,
            str(sum(row["injected"].values())),
            str(sum(row["exit_codes"].values())),
            f"{goodput['fraction']:.1%}",
            f"{min(1.0, row['undisturbed_seconds'] / max(1e-9, goodput['wall'])):.1%}",
            f"{goodput['repeated_steps']:,}",
            f"{goodput['repeated_steps'] / row['steps']:.1%}",
            f"{goodput['restart']:.1f}",
            "yes" if row["same_bits"] else f"no: {row['different'][0]}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _rows(path: str) -> list[dict[str, Any]]:
    """The rows of RESULTS.jsonl; a last line that was cut short is left out.

    Raises:
      ValueError: a line is JSON, and not a row of the results.
    """
    rows = []
    if os.path.exists(f"{path}.jsonl"):
        with reading_errors(f"{path}.jsonl"), open_regular(f"{path}.jsonl", encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                try:
                    # What the table shows of it is all that is used.
                    table([row])
                except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                    raise InputError(
                        f"{path}.jsonl holds a line that is not a result of tfbigbatch soak ({error!r:.200}). Name "
                        "another with --results, or move it away."
                    ) from None
                rows.append(row)
    return rows


def _row_of(rows: Sequence[dict[str, Any]], workers: int, steps: int, kind: str, every: str) -> dict[str, Any] | None:
    wanted = (workers, steps, kind, every)
    fields = ("workers", "steps", "failures", "checkpoint_every")
    return next((row for row in rows if tuple(row.get(field) for field in fields) == wanted), None)
