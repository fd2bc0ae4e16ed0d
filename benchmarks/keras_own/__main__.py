"""Keras 3's own Muon and Lamb beside this package's, on three small networks at 16 times the batch.

    TF_NUM_INTRAOP_THREADS=1 python benchmarks/keras_own --sst2=glue/SST-2 --pictures=tiny-imagenet-200 \\
      --results=results/keras_own

| task | network | training data | steps at 32, at 512 |
|---|---|---|---|
| `dense` | two dense layers of 128 | 8,192 rows of Friedman's first regression problem | 2,560, 160 |
| `convnet` | three convolutions with batch normalisation, a dense layer | 9,216 pictures of tiny-imagenet | 1,152, 72 |
| `transformer` | two layers of 32, Keras' MultiHeadAttention | 8,192 phrases of SST-2 | 768, 48 |

Equal for all rows of a task: network, initial values, data, epochs, a warm-up over a tenth of the steps and a linear
decay to 0, clipping at a global norm of 1, a decoupled weight decay of 0.01 (0.0005 for Nesterov momentum) without
biases and normalisation, beta_2 of 0.99, and in both Muons Adam's step for embeddings and the output layer.

Each learning rate has six trials on validation data, seed 100: three a factor of 4 apart, then beyond the end of the
range where the best is there, else halfway between the best and a neighbour. Where the best is at an end after six, up
to three more follow it. Then three seeds on the test data. A task whose folder is not given is left out.

RESULTS/runs.jsonl has every run, and the same command goes on after the last; RESULTS/TASK.json has the rows.
"""

import json
import math
import os
import statistics

from absl import flags

from tfbigbatch.utils import command, files

SMALL, LARGE = 32, 512
# The row and its batch size, and the middle of its first learning rates.
ROWS = {
    ("AdamW", SMALL): 0.002,
    ("AdamW", LARGE): 0.004,
    ("Nesterov", LARGE): 0.2,
    ("Keras Lamb", LARGE): 0.02,
    ("LAMB", LARGE): 0.02,
    ("Keras Muon", LARGE): 0.02,
    ("Muon", LARGE): 0.02,
}
# The small batch's row, with its learning rate, at the large batch.
KEPT = "AdamW, learning rate kept"
TRIALS, MOST_TRIALS, FACTOR, TRIAL_SEED, SEEDS = 6, 9, 4.0, 100, (0, 1, 2)

flags.DEFINE_string("sst2", None, "Folder of SST-2, with train.tsv and dev.tsv.")
flags.DEFINE_string("pictures", None, "Folder of tiny-imagenet, with train and val.")
flags.DEFINE_string("results", None, "Folder of the results.", required=True)
flags.DEFINE_bool("smoke", False, "An epoch of 512 examples of `dense` at a time, to try it.")


def next_learning_rate(middle, found):
    """The learning rate to try next; None when the search has ended.

    Args:
      middle: of the first three.
      found: what each learning rate gave: lower is better, infinity where it diverged.
    """
    for rate in (middle, middle / FACTOR, middle * FACTOR):
        if _rounded(rate) not in found:
            return _rounded(rate)
    rates = sorted(found)
    number = rates.index(min(rates, key=found.get))
    best, lower, higher = rates[number], rates[:number][-1:], rates[number + 1 :][:1]
    is_inside = lower and higher
    if len(found) >= (TRIALS if is_inside else MOST_TRIALS):
        return None
    if not is_inside:
        return _rounded(best * FACTOR if lower else best / FACTOR)
    # The wider gap; of equal ones, that to the better neighbour.
    gaps = {rate: abs(math.log(rate / best)) for rate in lower + higher}
    neighbour = max(gaps, key=lambda rate: (round(gaps[rate], 2), -found[rate]))
    return _rounded(math.sqrt(best * neighbour))


def _rounded(rate):
    return float(f"{rate:.3g}")


class Results:
    """The runs of RESULTS/runs.jsonl, and those that are still to be made."""

    def __init__(self, folder):
        self._path, self._lines = os.path.join(folder, "runs.jsonl"), {}
        os.makedirs(folder, exist_ok=True)
        if os.path.exists(self._path):
            with open(self._path, encoding="utf-8") as file:
                for line in map(json.loads, filter(str.strip, file)):
                    self._lines[self._key(line)] = line

    @staticmethod
    def _key(line):
        return tuple(line[name] for name in ("task", "row", "batch", "split", "learning_rate", "seed"))

    def value(self, program, **key):
        """The line of a run, which is made where the file has none."""
        if self._key(key) not in self._lines:
            value, seconds = program().run(key["learning_rate"], key["seed"], key["split"])
            line = {**key, "value": value, "cpu_seconds": round(seconds, 2)}
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(" ".join(str(part) for part in line.values()), flush=True)
            self._lines[self._key(key)] = line
        return self._lines[self._key(key)]


def search(middle, metric, run):
    """The learning rates that were tried, the best first.

    Args:
      middle: of the first three.
      metric: of the runs.
      run: gives the line of a learning rate's run.
    """
    found = {}
    while (rate := next_learning_rate(middle, found)) is not None:
        found[rate] = metric.order(run(rate)["value"])
    return sorted(found, key=found.get)


def measure(task, name, results):
    """The rows of a task, at the small batch first; each is made as far as it has not been."""
    import programs

    rows = []
    for (row, batch_size), middle in ROWS.items():
        made = []

        def program(row=row, batch_size=batch_size, made=made):
            if not made:
                made.append(programs.Program(task, row, batch_size))
            return made[0]

        key = {"task": name, "row": row, "batch": batch_size}
        rates = search(
            middle,
            task.metric,
            lambda rate, key=key, program=program: results.value(
                program, **key, split="validation", learning_rate=rate, seed=TRIAL_SEED
            ),
        )
        at_end = rates[0] in (min(rates), max(rates))
        tuned = f"{rates[0]:g} of {len(rates)} trials" + ", at an end" * at_end
        rows.append(_row(task, results, program, key, rates[0], tuned))
        if batch_size == SMALL:
            kept, chosen = {**key, "row": KEPT, "batch": LARGE}, rates[0]
        elif row == "AdamW":
            rows.append(_row(task, results, program, kept, chosen, f"at {SMALL}"))
    return rows


def _row(task, results, program, key, rate, tuned):
    """The runs on the test data, in the form of the results of studies."""
    lines = [results.value(program, **key, split="test", learning_rate=rate, seed=seed) for seed in SEEDS]
    values = [line["value"] for line in lines]
    has_all = None not in values
    return {
        "name": key["row"],
        "batch_size": key["batch"],
        "metric": task.metric.name,
        "values": values,
        "seeds": list(SEEDS),
        "mean": statistics.fmean(values) if has_all else None,
        "standard_deviation": statistics.stdev(values) if has_all else None,
        "steps": task.steps(key["batch"]),
        "cpu_seconds": round(statistics.median(line["cpu_seconds"] for line in lines), 2),
        "tuned": tuned,
        "config": {"evaluate_on": "test", "optimizer": key["row"], "learning_rate": rate},
    }


def _main(unused):
    options = flags.FLAGS
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tasks
    import tensorflow as tf

    results = Results(options.results)
    made = {"dense": lambda: tasks.dense(512, 1) if options.smoke else tasks.dense()}
    if options.pictures:
        made["convnet"] = lambda: tasks.convnet(options.pictures)
    if options.sst2:
        made["transformer"] = lambda: tasks.transformer(options.sst2)
    versions = {"keras": keras.__version__, "tensorflow": tf.__version__}
    for name, make in made.items():
        task = make()
        content = {"title": f"{task.title}, {task.epochs} epochs", "higher_is_better": task.metric.higher_is_better}
        path = os.path.join(options.results, f"{name}.json")
        files.write_json(path, {**content, "runs": measure(task, name, results), "versions": versions})
        print(path, flush=True)


if __name__ == "__main__":
    command.execute(_main)
