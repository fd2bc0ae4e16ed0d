"""The share of a training step that the optimizer's update takes, by batch size: Muon's beside AdamW's and LAMB's.

    TF_NUM_INTRAOP_THREADS=1 python benchmarks/update_share.py --data_dir=data \\
      --experiments=ptb/small=ptb_prepared,bert/wikitext:32=wikitext_1k_32 --results=results/optimizers/update_share

Each experiment is timed as EXPERIMENT=FOLDER, the folder within --data_dir: the gradients of 64 and of 256 examples,
and one update of each optimizer, in turns; CPU seconds of one thread, medians. The gradients of a larger batch take as
many times those of 256, since it goes through in such parts on one device; on n devices a share is that of the batch
over n. Writes RESULTS.json and RESULTS.md.
"""

import os
import statistics
import time

import experiment_models
from absl import flags

from tfbigbatch import experiment
from tfbigbatch.errors import InputError
from tfbigbatch.utils import command, files

_SMALL, _PART = 64, 256
BATCH_SIZES = (64, 1024, 8192)
OPTIMIZERS = {
    "AdamW": {"name": "adamw"},
    "LAMB": {"name": "lamb"},
    "Muon": {"name": "muon"},
}

flags.DEFINE_list("experiments", None, "EXPERIMENT=FOLDER of each.", required=True)
flags.DEFINE_string("data_dir", None, "Folder of the data's folders.")
flags.DEFINE_integer("repeats", 7, "Timed rounds, after one to warm up.", lower_bound=1)
flags.DEFINE_string("results", None, "Path of the results; file extensions are added.", required=True)


def measure(name, data_dir, repeats):
    """Median CPU seconds: {"gradients": {64, 256: seconds}, "updates": {optimizer: seconds}}."""
    from tfbigbatch import optimizers

    config = experiment.load(name)
    # A batch of another size would need another warm-up.
    config.schedule.rule, config.schedule.warmup, config.schedule.warmup_epochs = "none", "", 0.0
    calls = {}
    for batch_size in (_SMALL, _PART):
        model, batches = experiment_models.model_and_batches(config, batch_size, steps=1, data_dir=data_dir)
        batch, gradients_of = next(iter(batches)), experiment_models.gradient_function(model)
        calls[batch_size] = lambda gradients_of=gradients_of, batch=batch: gradients_of(batch)
    gradients = gradients_of(batch)
    for label, fields in OPTIMIZERS.items():
        optimizer = optimizers.get(fields, keras="tf_keras", learning_rate=1e-4)
        calls[label] = _update(optimizer, gradients, model.network.trainable_variables)
    times = {key: [] for key in calls}
    for number in range(repeats + 1):
        for key, call in calls.items():
            start = time.process_time()
            call()
            if number:
                times[key].append(time.process_time() - start)
    medians = {key: statistics.median(seconds) for key, seconds in times.items()}
    return {
        "gradients": {size: medians[size] for size in (_SMALL, _PART)},
        "updates": {label: medians[label] for label in OPTIMIZERS},
    }


def _update(optimizer, gradients, variables):
    import tensorflow as tf

    copies = [tf.Variable(variable, name=variable.name.split(":")[0]) for variable in variables]
    optimizer.build(copies)

    @tf.function
    def update():
        optimizer.apply_gradients(zip(gradients, copies))
        return tf.convert_to_tensor(optimizer.iterations)

    return lambda: int(update())


def share(measured, label, batch_size):
    """An optimizer's part of a step, in [0, 1]."""
    gradients = measured["gradients"]
    passes = gradients[_SMALL] * batch_size / _SMALL if batch_size < _PART else gradients[_PART] * batch_size / _PART
    return measured["updates"][label] / (measured["updates"][label] + passes)


def table(rows):
    """Markdown: a row for each experiment, with milliseconds and shares."""
    from tfbigbatch.reports.table import Table

    lines = [
        [
            name,
            f"{1e3 * measured['gradients'][_PART]:,.0f}",
            *(f"{1e3 * measured['updates'][label]:,.1f}" for label in OPTIMIZERS),
            *(f"{100 * share(measured, 'Muon', size):.1f}%" for size in BATCH_SIZES),
        ]
        for name, measured in rows.items()
    ]
    headings = [
        "experiment",
        f"gradients of {_PART}, ms",
        *(f"{label}, ms" for label in OPTIMIZERS),
        *(f"Muon's share at {size:,}" for size in BATCH_SIZES),
    ]
    return "\n".join(Table(headings, lines, frozenset({"experiment"})).markdown(padded=False))


def _main(unused):
    options = flags.FLAGS
    if not all("=" in each for each in options.experiments):
        raise InputError(f"--experiments={','.join(options.experiments)}: expected EXPERIMENT=FOLDER of each.")
    rows = {}
    for each in options.experiments:
        name, folder = each.rsplit("=", 1)
        data_dir = f"{options.data_dir}/{folder}" if options.data_dir else None
        rows[name] = measure(name, data_dir, options.repeats)
        print(f"{name}: {rows[name]}", flush=True)
    os.makedirs(os.path.dirname(options.results) or ".", exist_ok=True)
    files.write_json(f"{options.results}.json", rows)
    files.write_text(f"{options.results}.md", table(rows) + "\n")
    print(table(rows))


if __name__ == "__main__":
    command.execute(_main)
