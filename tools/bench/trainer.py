"""Times the trainer beside plain Keras `fit` of the same model, side by side, and over batch sizes.

    python tools/bench/trainer.py --config=experiments/mnist/lstm_small_batch.py --data_dir=FOLDER \\
      --batch_size=128,1024,8192 --results=docs/results/throughput/mnist_lstm.json

At each batch size the two take turns, `--rounds` times; each figure is the median of all windows but a
round's first, which holds the tracing. Plain Keras gets what a user would write: the same network, loss and metric,
compiled with the same optimizer, fed from arrays in memory.
"""

import os
import statistics
import tempfile
import time

import tf_keras
from absl import flags

from tfbigbatch import command, experiment, optimizers, tasks, train
from tfbigbatch.training.metrics_log import read_rows
from tfbigbatch.training.run_directory import versions, write_json

flags.DEFINE_string("config", None, "The experiment file.", required=True)
flags.DEFINE_string("data_dir", None, "Where the task's data lies.")
flags.DEFINE_list("batch_size", None, "Batch sizes; the experiment's own where left out.")
flags.DEFINE_integer("rounds", 5, "Turns of each contender at each batch size.", lower_bound=1)
flags.DEFINE_integer("windows", 3, "Timed windows in a round, after one that is not timed.", lower_bound=1)
flags.DEFINE_integer("window_examples", 20_000, "Examples in a window, to whole updates.", lower_bound=1)
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")


class _Windows(tf_keras.callbacks.Callback):
    """Examples a second of each window of `steps` batches."""

    def __init__(self, steps, batch_size):
        super().__init__()
        self._steps, self._batch_size = steps, batch_size
        self.speeds = []

    def on_train_begin(self, logs=None):
        self._started = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        if (batch + 1) % self._steps == 0:
            now = time.perf_counter()
            self.speeds.append(self._steps * self._batch_size / (now - self._started))
            self._started = now


def trainer(config, data_dir, steps, windows):
    """Examples a second of each window of the reference trainer's own log."""
    with tempfile.TemporaryDirectory() as directory:
        config.log_every = f"{steps} steps"
        config.duration = f"{steps * windows} steps"
        config.evaluate_every = config.checkpoint_every = config.duration
        train.run(config, model_dir=directory, data_dir=data_dir, mode="train")
        rows = read_rows(os.path.join(directory, "metrics.jsonl"))
    return [row["examples_per_second"] for row in rows if row["split"] == "train"]


def plain_keras(config, data_dir, steps, windows):
    """The same of `fit` on a plain Keras model."""
    tf_keras.backend.clear_session()
    task = tasks.get(config.task)(model=config.model.to_dict(), data_dir=data_dir, use_fake_data=False)
    model, fitted = task.plain_keras(config.batch_size)
    model.compile(
        optimizer=optimizers.get(config.optimizer.to_dict(), keras="tf_keras", learning_rate=0.01),
        loss=task.loss(),
        metrics=task.metrics(),
    )
    measured = _Windows(steps, config.batch_size)
    model.fit(**fitted, epochs=1, steps_per_epoch=steps * windows, callbacks=[measured], verbose=0)
    return measured.speeds


def _main(unused):
    options = flags.FLAGS
    base = experiment.load(options.config)
    sizes = command.numbers("batch_size", options.batch_size or [str(base.batch_size)], int)
    measured = []
    for batch_size in sizes:
        speeds = {"trainer": [], "plain_keras": []}
        steps = max(1, options.window_examples // batch_size)
        for _ in range(options.rounds):
            for name, contender in (("trainer", trainer), ("plain_keras", plain_keras)):
                config = experiment.load(options.config)
                config.batch_size = batch_size
                speeds[name] += contender(config, options.data_dir, steps, options.windows + 1)[1:]
        medians = {name: statistics.median(values) for name, values in speeds.items()}
        ratio = medians["trainer"] / medians["plain_keras"]
        measured.append({"batch_size": batch_size, **medians, "ratio": ratio, "windows": speeds})
        print(
            f"batch {batch_size:>6,}: trainer {medians['trainer']:8,.0f}, plain Keras {medians['plain_keras']:8,.0f} "
            f"examples a second, ratio {ratio:.2f}",
            flush=True,
        )
    if options.results:
        write_json(options.results, {"task": base.task, "measured": measured, "versions": versions()})
        print(f"results      {options.results}")


if __name__ == "__main__":
    command.execute(_main)
