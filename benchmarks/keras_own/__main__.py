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

import math
import os
import statistics
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness

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
TRIALS, MOST_TRIALS, FACTOR = 6, 9, 4.0


class Method:
    """A row of a task: its trials, and its runs on the test data."""

    def __init__(self, task, name, row, batch_size, results):
        self._task, self._results, self._program = task, results, None
        self._key = {"task": name, "row": row, "batch": batch_size}

    def _line(self, **more):
        """The line of a run, which is made if it is not there."""
        key = {**self._key, **more}
        if not self._results.find(**key):
            import programs

            if self._program is None:
                self._program = programs.Program(self._task, self._key["row"], self._key["batch"])
            value, seconds = self._program.run(key["learning_rate"], key["seed"], key["split"])
            self._results.add({**key, "value": value, "cpu_seconds": round(seconds, 2)})
            print(*self._results.find(**key)[0].values(), flush=True)
        return self._results.find(**key)[0]

    def trial(self, rate):
        """The result of a learning rate on the validation data: lower is better."""
        line = self._line(split="validation", learning_rate=rate, seed=TRIAL_SEED)
        return self._task.metric.order(line["value"])

    def row(self, rate, tuned):
        """The runs on the test data, in the form of the results of sweeps."""
        lines = [self._line(split="test", learning_rate=rate, seed=seed) for seed in SEEDS]
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


def tried(middle, run):
    """The learning rates that were tried, the best first.

    Args:
      middle: of the first three.
      run: gives what a learning rate's run ends at: lower is better, infinity where it diverged.
    """
    found = {}
    while (rate := next_learning_rate(middle, found)) is not None:
        found[rate] = run(rate)
    return sorted(found, key=found.get)


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


def rows(task, name, results):
    """The rows of a task, each run that is missing made; the small batch's is the first."""
    for (row, batch_size), middle in ROWS.items():
        method = Method(task, name, row, batch_size, results)
        rates = tried(middle, method.trial)
        at_end = rates[0] in (min(rates), max(rates))
        yield method.row(rates[0], f"{rates[0]:g} of {len(rates)} trials" + ", at an end" * at_end)
        if batch_size == SMALL:
            yield Method(task, name, KEPT, LARGE, results).row(rates[0], f"at {SMALL}")


def main():
    """Measures each task, and writes its rows."""
    parser = harness.parser(__doc__, "keras_own")
    parser.add_argument("--sst2", help="folder of SST-2, with train.tsv and dev.tsv")
    parser.add_argument("--pictures", help="folder of tiny-imagenet, with train and val")
    parser.add_argument("--results", required=True, help="folder of the results")
    parser.add_argument("--tiny", action="store_true", help="an epoch of 512 examples of `dense` alone: to try it")
    given = parser.parse_args()
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.makedirs(given.results, exist_ok=True)
    import tasks

    results = harness.Lines(os.path.join(given.results, "runs.jsonl"))
    made = {"dense": lambda: tasks.dense(512, 1) if given.tiny else tasks.dense()}
    if given.pictures:
        made["convnet"] = lambda: tasks.convnet(given.pictures)
    if given.sst2:
        made["transformer"] = lambda: tasks.transformer(given.sst2)
    for name, make in made.items():
        task, path = make(), os.path.join(given.results, f"{name}.json")
        content = {"title": f"{task.title}, {task.epochs} epochs", "higher_is_better": task.metric.higher_is_better}
        harness.write(path, **content, runs=list(rows(task, name, results)))
        print(path, flush=True)


if __name__ == "__main__":
    main()
