"""The rows of a study: a method of a task at a batch size, its search and its runs."""

import concurrent.futures
import copy
import dataclasses
import json
import os
import time

import bert
import gnmt
import jax
import mnist
import numpy as np
import programs
import ptb
import study_files

from tfbigbatch.experiments.few_steps import study as few_steps

NETWORKS = {
    "ptb": ptb.PTB,
    "bert": bert.BERT,
    "mnist_lstm": mnist.MNISTLSTM,
    "mnist": mnist.FullBatch,
    "multi30k": gnmt.Multi30k,
}
TRIAL_SEED = 100
SPREAD = 2.0
MOST_SEARCHES = 3


class Results:
    """The lines of the file of results, and those of a row's stages."""

    def __init__(self, path):
        self._path, self._lines = path, []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self._lines = [json.loads(line) for line in file if line.strip()]

    def of(self, row, stage):
        """The lines of a row's stage, in their order."""
        wanted = {**row.key, "stage": stage}
        return [line for line in self._lines if wanted.items() <= line.items()]

    def add(self, row, stage, **content):
        line = {**row.key, "stage": stage, **content}
        self._lines.append(line)
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@dataclasses.dataclass(frozen=True)
class Row:
    """A method of a task at a batch size.

    Attributes:
      study: its name.
      name: of the task.
      task: its network and data.
      method: as the study names it.
      config: of the study, with the optimizer and the batch size.
      middle: of the first learning rates.
    """

    study: str
    name: str
    task: object
    method: str
    config: object
    middle: float

    @property
    def key(self):
        """What a line of results says of its row."""
        return {"study": self.study, "task": self.name, "batch": self.config.batch_size, "method": self.method}

    @property
    def bias(self):
        """The initial output bias: 'frequency', 'zero' or 'uniform'."""
        return self.config.model.get("output_bias", "zero")

    @property
    def program(self):
        """What a program is compiled for: rows of another output bias share it."""
        config = copy.deepcopy(self.config)
        config.schedule.learning_rate = 0.0
        if "output_bias" in config.model:
            config.model.output_bias = ""
        return self.name, str(config)

    def __str__(self):
        return f"{self.name}, {self.config.batch_size:,}, {self.method}"

    def run(self, program, results):
        """Searches, and runs the chosen learning rate, as far as it has not been done."""
        found = {}
        for lines in range(MOST_SEARCHES):
            rates = self._next(found, program.lanes)
            if not rates:
                break
            if len(results.of(self, "trials")) == lines:
                self._add(program, results, "trials", rates, [TRIAL_SEED] * program.lanes)
            line = results.of(self, "trials")[lines]
            found |= {
                rate: np.inf if value is None else value if self.task.loss_metric else -value
                for rate, value in zip(line["learning_rates"], line["validation"])
            }
        best = min(found, key=found.get)
        at_end = best in (min(found), max(found))
        seeds = list(range(program.lanes))
        self._add(program, results, "chosen", [best] * len(seeds), seeds, trials=len(found), at_end=at_end)

    def _next(self, found, count):
        """The learning rates to try; none where the best of them lies inside."""
        if not found:
            return [_rounded(self.middle * SPREAD ** (number - count // 2)) for number in range(count)]
        best = min(found, key=found.get)
        if best not in (min(found), max(found)):
            return []
        step = SPREAD if best == max(found) else 1.0 / SPREAD
        return [_rounded(best * step ** (number + 1)) for number in range(count)]

    def _add(self, program, results, stage, rates, seeds, **content):
        held_out = stage == "trials" and not self.task.own_validation
        validation, test, curves, seconds = program(rates, seeds, held_out, self.bias)
        results.add(
            self,
            stage,
            learning_rates=rates,
            seeds=seeds,
            validation=_numbers(validation),
            test=_numbers(test),
            steps=program.steps,
            seconds=round(seconds, 2),
            curves=[_numbers(curve, 4) for curve in curves],
            device=jax.devices()[0].device_kind,
            jax=jax.__version__,
            **content,
        )
        values = zip(rates, test if stage == "chosen" else validation)
        shown = " ".join(f"{rate:g}: {value:.2f}" for rate, value in values)
        print(f"{self}, {stage}, {program.steps} steps, {seconds:.1f} s: {shown}", flush=True)


def run(study, data_dir, names, only, path, *, lanes, share, compilations):
    """Runs the rows that are asked for and have not ended.

    Args:
      study: a study file, or its name.
      data_dir: the folder of the tasks' folders.
      names: of tasks.
      only: METHOD, METHOD@BATCH or @BATCH; empty for all rows.
      path: of the file of results.
      lanes, share: of `programs.Program`.
      compilations: programs that are compiled at a time.
    """
    results, start = Results(path), time.perf_counter()
    asked = [row for name in names for row in _rows(study, name, data_dir) if _is_asked(row, only)]
    sharing = {}
    for row in asked:
        if not results.of(row, "chosen"):
            sharing.setdefault(row.program, []).append(row)
    count = sum(len(same) for same in sharing.values())
    print(f"{count} rows on {jax.devices()[0].device_kind}, {time.perf_counter() - start:.0f} s", flush=True)
    with concurrent.futures.ThreadPoolExecutor(compilations) as threads:
        compiled = [threads.submit(_compiled, same[0], lanes, share) for same in sharing.values()]
        for number, same in enumerate(sharing.values()):
            program, seconds = compiled[number].result()
            print(f"{same[0]}: compiled in {seconds:.0f} s", flush=True)
            for row in same:
                row.run(program, results)
            # Its memory on the device is free when nothing refers to it.
            compiled[number] = program = None
    print(f"{time.perf_counter() - start:.0f} s in all", flush=True)


def _compiled(row, lanes, share):
    program = programs.Program(row.task, row.config, lanes, share)
    return program, program.compile()


def _rows(path, name, data_dir):
    """The rows of a study, in its order."""
    study = study_files.load(path, name)
    network = NETWORKS[name](os.path.join(data_dir, few_steps.VARIANTS[name].folder))
    for row in study.rows():
        rates = getattr(row, "learning_rates", (row.config.schedule.learning_rate,))
        yield Row(study_files.name(path), name, network, row.name, row.config, rates[len(rates) // 2])


def _is_asked(row, only):
    batch_size = row.config.batch_size
    return not only or bool({row.method, f"{row.method}@{batch_size}", f"@{batch_size}"} & set(only))


def _rounded(rate):
    return float(f"{rate:.3g}")


def _numbers(values, digits=3):
    """For JSON: None where a run diverged."""
    return [round(float(value), digits) if np.isfinite(value) else None for value in values]
