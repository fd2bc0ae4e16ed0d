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
to three more extend the range. The best then runs on the test data with three seeds. A task without its folder is
skipped.

RESULTS/runs.jsonl records every run, so that the same command resumes; RESULTS/TASK.json has the rows.
"""

import json
import os
import statistics

import search
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
TRIAL_SEED, SEEDS = 100, (0, 1, 2)

flags.DEFINE_string("sst2", None, "Folder of SST-2, with train.tsv and dev.tsv.")
flags.DEFINE_string("pictures", None, "Folder of tiny-imagenet, with train and val.")
flags.DEFINE_string("results", None, "Folder of the results.", required=True)
flags.DEFINE_bool("tiny", False, "Of `dense` an epoch of 512 examples a run: to try it.")


class Results:
    """The lines of RESULTS/runs.jsonl, one a run."""

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

    def line(self, train, **key):
        """The line of a run; `train` makes the value and the seconds of one that is not there."""
        if self._key(key) not in self._lines:
            value, seconds = train(key["learning_rate"], key["seed"], key["split"])
            line = self._lines[self._key(key)] = {**key, "value": value, "cpu_seconds": round(seconds, 2)}
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(" ".join(map(str, line.values())), flush=True)
        return self._lines[self._key(key)]


class Method:
    """A row of a task: its trials, and its runs on the test data."""

    def __init__(self, task, name, row, batch_size, results):
        self._task, self._results, self._program = task, results, None
        self._key = {"task": name, "row": row, "batch": batch_size}

    def _train(self, *arguments):
        import programs

        if self._program is None:
            self._program = programs.Program(self._task, self._key["row"], self._key["batch"])
        return self._program.run(*arguments)

    def trial(self, rate):
        """What a learning rate gives on the validation data: lower is better."""
        key = {**self._key, "split": "validation", "learning_rate": rate, "seed": TRIAL_SEED}
        return self._task.metric.order(self._results.line(self._train, **key)["value"])

    def row(self, rate, tuned):
        """The runs on the test data, in the form of the results of studies."""
        key = {**self._key, "split": "test", "learning_rate": rate}
        lines = [self._results.line(self._train, **key, seed=seed) for seed in SEEDS]
        values = [line["value"] and line["value"] / self._task.unit for line in lines]
        ended = None not in values
        return {
            "name": self._key["row"],
            "batch_size": self._key["batch"],
            "metric": self._task.metric.name,
            "values": values,
            "seeds": list(SEEDS),
            "mean": statistics.fmean(values) if ended else None,
            "standard_deviation": statistics.stdev(values) if ended else None,
            "steps": self._task.steps(self._key["batch"]),
            "cpu_seconds": statistics.median(line["cpu_seconds"] for line in lines),
            "tuned": tuned,
            "config": {"evaluate_on": "test", "optimizer": self._key["row"], "learning_rate": rate},
        }


def rows(task, name, results):
    """The rows of a task, each run that is missing made; the small batch's is the first."""
    for (row, batch_size), middle in ROWS.items():
        method = Method(task, name, row, batch_size, results)
        rates = search.tried(middle, method.trial)
        at_end = rates[0] in (min(rates), max(rates))
        yield method.row(rates[0], f"{rates[0]:g} of {len(rates)} trials" + ", at an end" * at_end)
        if batch_size == SMALL:
            yield Method(task, name, KEPT, LARGE, results).row(rates[0], f"at {SMALL}")


def _main(unused):
    options = flags.FLAGS
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras
    import tasks
    import tensorflow as tf

    results = Results(options.results)
    made = {"dense": lambda: tasks.dense(512, 1) if options.tiny else tasks.dense()}
    if options.pictures:
        made["convnet"] = lambda: tasks.convnet(options.pictures)
    if options.sst2:
        made["transformer"] = lambda: tasks.transformer(options.sst2)
    versions = {"keras": keras.__version__, "tensorflow": tf.__version__}
    for name, make in made.items():
        task = make()
        content = {"title": f"{task.title}, {task.epochs} epochs", "higher_is_better": task.metric.higher_is_better}
        path = os.path.join(options.results, f"{name}.json")
        files.write_json(path, {**content, "runs": list(rows(task, name, results)), "versions": versions})
        print(path, flush=True)


if __name__ == "__main__":
    command.execute(_main)
