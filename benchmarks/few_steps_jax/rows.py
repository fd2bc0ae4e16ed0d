"""The rows of a sweep: a method of a task at a batch size, its search and its runs; and their tables."""

import concurrent.futures
import dataclasses
import os
import statistics
import time

import bert
import gnmt
import harness
import jax
import mnist
import numpy as np
import programs
import ptb

from tfbigbatch import sweeps
from tfbigbatch.config import files, load_config
from tfbigbatch.errors import InputError
from tfbigbatch.experiments.few_steps import sweep as few_steps
from tfbigbatch.run_directory.metric import Metric
from tfbigbatch.utils.files import write_json

NETWORKS = {
    "ptb": ptb.PTB,
    "bert": bert.BERT,
    "mnist_lstm": mnist.MNISTLSTM,
    "mnist": mnist.FullBatch,
    "multi30k": gnmt.Multi30k,
}
METRICS = {"ptb": "perplexity", "bert": "masked_lm_accuracy", "multi30k": "bleu"}
TRIAL_SEED = 100
SPREAD = 2.0
MOST_SEARCHES = 3
# Programs that are compiled at a time.
COMPILATIONS = 6


def sweep_name(path):
    """The name of a sweep, 'few_steps/sweep', whether its name or its path is given."""
    found, shipped = os.path.realpath(files.find(path)[0]), os.path.realpath(files.SHIPPED)
    return os.path.relpath(found, shipped if found.startswith(shipped + os.sep) else None).removesuffix(".py")


def load_sweep(path, task):
    """The sweep of a task.

    Args:
      path: of a sweep file, or its name.
      task: the sweep's variant, where it has variants.

    Raises:
      ValueError: there is no such sweep, or it is of another task.
    """
    has_variants = hasattr(files.executed(files.find(path)[0]), "VARIANTS")
    found = sweeps.load(f"{path}:{task}" if has_variants else path)
    trained, expected = found.rows()[0].config.task, load_config(few_steps.VARIANTS[task].base).task
    if trained != expected:
        raise InputError(f"--sweep={path} trains {trained}, and --tasks has {task}; expected tasks of the sweep alone.")
    return found


@dataclasses.dataclass(frozen=True)
class Row:
    """A method of a task at a batch size.

    Attributes:
      sweep: its name.
      name: of the task.
      task: its network and data.
      method: as the sweep names it.
      config: of the sweep, with the optimizer and the batch size.
      middle: of the first learning rates.
    """

    sweep: str
    name: str
    task: object
    method: str
    config: object
    middle: float

    @property
    def key(self):
        """The entries of a line of results that name its row."""
        return {"sweep": self.sweep, "task": self.name, "batch": self.config.batch_size, "method": self.method}

    def __str__(self):
        return f"{self.name}, {self.config.batch_size:,}, {self.method}"

    def compiled(self, lanes):
        """The program of its runs, and the seconds that compiling it took."""
        program = programs.Program(self.task, self.config, lanes)
        return program, program.compile()

    def run(self, program, results):
        """Searches, and runs the chosen learning rate, as far as it has not been done."""
        found = {}
        for lines in range(MOST_SEARCHES):
            rates = self._next(found, program.lanes)
            if not rates:
                break
            if len(results.find(**self.key, stage="trials")) == lines:
                self._add(program, results, "trials", rates, [TRIAL_SEED] * program.lanes)
            line = results.find(**self.key, stage="trials")[lines]
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
        validation, test, curves, seconds = program(rates, seeds, held_out)
        line = {
            **self.key,
            "stage": stage,
            "learning_rates": rates,
            "seeds": seeds,
            "validation": _numbers(validation),
            "test": _numbers(test),
            "steps": program.steps,
            "seconds": round(seconds, 2),
            "curves": [_numbers(curve, 4) for curve in curves],
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
            **content,
        }
        results.add(line)
        values = zip(rates, test if stage == "chosen" else validation)
        shown = " ".join(f"{rate:g}: {value:.2f}" for rate, value in values)
        print(f"{self}, {stage}, {program.steps} steps, {seconds:.1f} s: {shown}", flush=True)


def run(sweep, data_dir, names, only, path, lanes):
    """Runs the rows that are asked for and have not ended.

    Args:
      sweep: a sweep file, or its name.
      data_dir: the folder of the tasks' folders.
      names: of tasks.
      only: METHOD, METHOD@BATCH or @BATCH; empty for all rows.
      path: of the file of results.
      lanes: of `programs.Program`.
    """
    results, start = harness.Lines(path), time.perf_counter()
    asked = [row for name in names for row in _rows(sweep, name, data_dir) if _is_asked(row, only)]
    asked = [row for row in asked if not results.find(**row.key, stage="chosen")]
    print(f"{len(asked)} rows on {jax.devices()[0].device_kind}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(COMPILATIONS) as threads:
        compiled = [threads.submit(row.compiled, lanes) for row in asked]
        for number, row in enumerate(asked):
            program, seconds = compiled[number].result()
            print(f"{row}: compiled in {seconds:.0f} s", flush=True)
            row.run(program, results)
            # Its memory on the device is free when nothing refers to it.
            compiled[number] = program = None
    print(f"{time.perf_counter() - start:.0f} s in all", flush=True)


def _rows(path, name, data_dir):
    """The rows of a sweep, in its order."""
    network = NETWORKS[name](os.path.join(data_dir, few_steps.VARIANTS[name].folder))
    for row in load_sweep(path, name).rows():
        rates = getattr(row, "learning_rates", (row.config.schedule.learning_rate,))
        yield Row(sweep_name(path), name, network, row.name, row.config, rates[len(rates) // 2])


def _is_asked(row, only):
    batch_size = row.config.batch_size
    return not only or bool({row.method, f"{row.method}@{batch_size}", f"@{batch_size}"} & set(only))


def _rounded(rate):
    return float(f"{rate:.3g}")


def _numbers(values, digits=3):
    """For JSON: None where a run diverged."""
    return [round(float(value), digits) if np.isfinite(value) else None for value in values]


# ----------------------------------------------------------------------------------------------------------- tables


def write_tables(sweep, path, prefix):
    """Writes PREFIX_TASK.json, in the form of the files of sweeps, for each task of a sweep in a file of results.

    Raises:
      ValueError: the file has no results of that sweep.
    """
    lines = harness.Lines(path).find(sweep=sweep_name(sweep))
    if not lines:
        others = ", ".join(sorted({line["sweep"] for line in harness.Lines(path).find()})) or "none"
        raise InputError(f"--results={path} has no results of --sweep={sweep}; it has those of: {others}.")
    for name in dict.fromkeys(line["task"] for line in lines):
        metric = Metric(METRICS.get(name, "accuracy"), name != "ptb", "test")
        mine = [line for line in lines if line["task"] == name]
        chosen = [line for line in mine if line["stage"] == "chosen"]
        found = [_table_row(line, metric) for line in [*chosen, *_best_trials(name, mine, chosen, metric)]]
        found.sort(key=lambda row: (row["batch_size"], metric.order(row["mean"])))
        title = f"{load_sweep(sweep, name).title}, Keras 3 on JAX"
        content = {"higher_is_better": metric.higher_is_better, "title": title, "runs": found}
        write_json(f"{prefix}_{name}.json", content)
        print(f"{prefix}_{name}.json")


def _best_trials(name, lines, chosen, metric):
    """The best trial of rows without chosen runs, where trials train on all of the data: its seed is theirs."""
    ended = {(line["method"], line["batch"]) for line in chosen}
    for line in lines:
        if NETWORKS[name].own_validation and (line["method"], line["batch"]) not in ended:
            best = min(range(len(line["validation"])), key=lambda number: metric.order(line["validation"][number]))
            one = {key: [line[key][best]] for key in ("test", "seeds", "learning_rates")}
            yield {**line, **one, "trials": len(line["validation"]), "at_end": best in (0, len(line["validation"]) - 1)}


def _table_row(line, metric):
    values = [None if value is None else value / 100 if metric.is_fraction else value for value in line["test"]]
    all_ended = None not in values
    return {
        "name": line["method"],
        "batch_size": line["batch"],
        "metric": metric.name,
        "values": values,
        "seeds": line["seeds"],
        "mean": statistics.fmean(values) if all_ended else None,
        "standard_deviation": statistics.stdev(values) if all_ended and len(values) > 1 else None,
        "steps": line["steps"],
        "tuned": f"{line['learning_rates'][0]:g} of {line['trials']} trials" + ", at an end" * line["at_end"],
        "config": {"evaluate_on": "test", "optimizer": line["method"], "learning_rate": line["learning_rates"][0]},
        "device": line["device"],
    }
