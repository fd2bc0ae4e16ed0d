"""Times the trainer beside plain Keras `fit` of the same model, at several batch sizes.

    python benchmarks/trainer.py --config=experiments/mnist/lstm_small_batch.py --data_dir=FOLDER \\
      --batch_size=128,1024,8192 --results=results/throughput/mnist_lstm.json

The baselines take turns, each turn in a process of its own; a figure is the median of all windows of all
turns, but for each turn's first window, which holds the tracing. Plain Keras is what a user would
write: the same layers, loss, metrics and optimizer, and `fit` on arrays, on windows of a text, or on TFRecords of
pictures. ResNet-50 is timed beside tf-models-official's trainer too, and BERT's pretraining beside it alone.
"""

import contextlib
import io
import multiprocessing
import os
import statistics
import tempfile
import time

import bert_baselines
import image_baselines
from absl import flags

from tfbigbatch import experiment
from tfbigbatch.utils import command

flags.DEFINE_string("config", None, "The experiment file.", required=True)
flags.DEFINE_list("override", [], "Changes to it: FIELD=VALUE, as model.layers=12.")
flags.DEFINE_string("data_dir", None, "Where the task's data lies.")
flags.DEFINE_list("batch_size", None, "Batch sizes; the experiment's own where left out.")
flags.DEFINE_integer("turns", 5, "Turns of each baseline at each batch size.", lower_bound=1)
flags.DEFINE_integer("windows", 3, "Timed windows in a turn, after one that is not timed.", lower_bound=1)
flags.DEFINE_integer("window_examples", 20_000, "Examples in a window, to whole updates.", lower_bound=1)
flags.DEFINE_bool("jit_compile", False, "The training step compiled by XLA, each baseline in its own way.")
flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")


def trainer(config, data_dir, steps, windows):
    """Examples a second of each window, from the reference trainer's own log."""
    from tfbigbatch import train
    from tfbigbatch.runs.metrics_log import read_rows

    config.log_every = f"{steps} steps"
    config.duration = config.evaluate_every = config.checkpoint_every = f"{steps * windows} steps"
    with tempfile.TemporaryDirectory() as directory:
        train.run(config, model_dir=directory, data_dir=data_dir, mode="train")
        rows = read_rows(os.path.join(directory, "metrics.jsonl"))
    return [row["examples_per_second"] for row in rows if row["split"] == "train"]


def plain_keras(config, data_dir, steps, windows):
    """The same of `fit` on a plain Keras model."""
    import tensorflow as tf
    import tf_keras

    from tfbigbatch import optimizers, tasks
    from tfbigbatch.data.images import manifest as image_manifest

    class Windows(tf_keras.callbacks.Callback):
        speeds = []

        def on_train_begin(self, logs=None):
            self.started = time.perf_counter()

        def on_train_batch_end(self, batch, logs=None):
            if (batch + 1) % steps == 0:
                now = time.perf_counter()
                self.speeds.append(steps * config.batch_size / (now - self.started))
                self.started = now

    task = tasks.get(config.task)(
        model=config.model.to_dict(), data=config.data.to_dict(), data_dir=data_dir, use_fake_data=False
    )
    if task.carries_state:
        model = _stateful(task.network(), config.batch_size)
        batches = task.train.training_batches(
            tf.distribute.InputContext(), batch_size=config.batch_size, seed=0, first_step=0, last_step=steps * windows
        )
        fed = {"x": batches.map(lambda inputs, labels, mask: (inputs["tokens"], labels))}
    elif config.task == "image_classification":
        model = task.network()
        manifest = image_manifest.load(data_dir)
        fed = {
            "x": image_baselines.plain_batches(
                manifest.splits["train"], manifest, config.model.image_size, config.batch_size
            ),
            "steps_per_epoch": steps * windows,
        }
    else:
        model = task.network()
        enough = steps * windows * config.batch_size
        repeats = -(-enough // len(task.train.labels))
        fed = {
            "x": tf.repeat(task.train.features, repeats, axis=0).numpy()[:enough],
            "y": tf.repeat(task.train.labels, repeats, axis=0).numpy()[:enough],
            "batch_size": config.batch_size,
        }
    model.compile(
        optimizer=optimizers.get(config.optimizer.to_dict(), keras="tf_keras", learning_rate=0.01),
        loss=task.loss(),
        metrics=task.metrics(),
        jit_compile=config.jit_compile,
    )
    measured = Windows()
    model.fit(**fed, epochs=1, callbacks=[measured], verbose=0)
    return measured.speeds


BASELINES = {
    "trainer": trainer,
    "plain_keras": plain_keras,
    "tf_models_official": image_baselines.tf_models_official,
    "tf_models_official_bert": bert_baselines.tf_models_official,
}


def baselines_of(config):
    """The names of those that train the config's model."""
    if bert_baselines.is_pretraining(config):
        return ["trainer", "tf_models_official_bert"]
    return ["trainer", "plain_keras", *(["tf_models_official"] if image_baselines.is_resnet50(config) else [])]


def _stateful(network, batch_size):
    """The language model as Keras users write it: stateful layers in a row."""
    import tf_keras

    model = tf_keras.Sequential([tf_keras.Input(batch_shape=(batch_size, network.inputs[0].shape[1]))])
    for layer in network.layers:
        if isinstance(layer, tf_keras.layers.LSTM):
            fields = {**layer.get_config(), "stateful": True, "return_state": False}
            model.add(tf_keras.layers.LSTM.from_config(fields))
        elif isinstance(layer, (tf_keras.layers.Embedding, tf_keras.layers.Dense, tf_keras.layers.Dropout)):
            model.add(layer.from_config(layer.get_config()))
    return model


def turn(name, path, overrides, fields, data_dir, steps, windows):
    """One baseline's examples a second in its timed windows; called in a process of its own."""
    config = experiment.load(path)
    experiment.override(config, overrides)
    config.update(fields)
    config.schedule.decay, config.schedule.warmup_epochs = "constant", 0.0
    # Only the result is wanted, not the trainer's own output.
    with contextlib.redirect_stdout(io.StringIO()):
        return BASELINES[name](config, data_dir, steps, windows + 1)[1:]


def _main(unused):
    from tfbigbatch.runs.run_directory import versions
    from tfbigbatch.utils.files import write_json

    options = flags.FLAGS
    base = experiment.load(options.config)
    experiment.override(base, options.override)
    measured = []
    for batch_size in command.numbers("batch_size", options.batch_size or [str(base.batch_size)], int):
        steps = max(1, options.window_examples // batch_size)
        inner = min(steps, base.steps_per_execution)
        # A multiple of the trainer's inner loop, so that its windows end where it reports.
        steps = -(-steps // inner) * inner
        fields = {
            "batch_size": batch_size,
            "steps_per_execution": inner,
            "jit_compile": options.jit_compile,
            # For all alike; and most processors have nothing faster.
            "mixed_precision": "float32",
        }
        speeds = {name: [] for name in baselines_of(base)}
        for _ in range(options.turns):
            for name in speeds:
                arguments = (name, options.config, options.override, fields, options.data_dir, steps, options.windows)
                with multiprocessing.get_context("spawn").Pool(1) as fresh:
                    speeds[name] += fresh.apply(turn, arguments)
        medians = {name: statistics.median(values) for name, values in speeds.items()}
        ratios = {name: medians["trainer"] / median for name, median in medians.items() if name != "trainer"}
        measured.append({"batch_size": batch_size, "median": medians, "ratio": ratios, "windows": speeds})
        shown = ", ".join(f"{name} {median:,.1f}" for name, median in medians.items())
        beside = ", ".join(f"{ratio:.2f} of {name}" for name, ratio in ratios.items())
        print(f"batch {batch_size:,}: {shown} examples a second; the trainer {beside}", flush=True)
    if options.results:
        setting = {
            "task": base.task,
            "override": options.override,
            "jit_compile": options.jit_compile,
            "turns": options.turns,
        }
        write_json(options.results, {"setting": setting, "measured": measured, "versions": versions()})
        print(f"results      {options.results}")


if __name__ == "__main__":
    command.execute(_main)
