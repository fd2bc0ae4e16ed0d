"""Which part of a run its evaluations take, at the sizes of the experiment itself.

    python benchmarks/evaluation.py --results=results/throughput/evaluation.json \\
      --experiments=digits/lstm_legw,mnist/lstm_small_batch=data/mnist,multi30k/gnmt_small_batch=data/multi30k_en_de \\
      --steps=111,300,453 --evaluations=37,5,3

Each experiment is trained by the trainer itself, in a process of its own, for --steps of its steps, and evaluated
--evaluations times, at equal distances. A step and an evaluation are the medians without the
first of each, which hold the tracing; the share of a run follows from its own numbers of both. An evaluation of GNMT is
longer at the start of a run, where few translations end; the last one is given too. --before=CHECKOUT measures another
checkout of the package in turns, --rounds times.

    python benchmarks/evaluation.py --orders=RUN_DIR --results=results/throughput/evaluation_orders.json

evaluates a trained GNMT with the pairs in their order and by length, in turns.
"""

import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import results_file
from absl import flags

from tfbigbatch import experiment
from tfbigbatch.utils import command


def timed(function, spans):
    """The function, with the (seconds, processor seconds) at which each call begins and ends put into `spans`."""

    def call(*arguments, **options):
        begins = time.perf_counter(), time.process_time()
        found = function(*arguments, **options)
        spans.append((begins, (time.perf_counter(), time.process_time())))
        return found

    return call


def measure(path, data_dir, steps, evaluations):
    """The figures of one experiment."""
    from tfbigbatch import train
    from tfbigbatch.runs.metrics_log import read_rows
    from tfbigbatch.schedules import to_steps
    from tfbigbatch.training import trainer

    config = experiment.load(path)
    own = {name: config[name] for name in ("duration", "evaluate_every")}
    between = max(steps // evaluations, 1)
    config.duration = f"{between * evaluations} steps"
    config.evaluate_every = f"{between} steps"
    config.checkpoint_every = config.duration
    spans = []
    trainer.evaluate = timed(trainer.evaluate, spans)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        train.run(config, model_dir=os.path.join(folder, "run"), data_dir=data_dir, mode="train_and_eval")
        rows = read_rows(os.path.join(folder, "run", "metrics.jsonl"))
    size = next(row["step"] * config.batch_size / row["epoch"] for row in rows if row.get("epoch"))
    total, every = (
        to_steps(value, name=name, batch_size=config.batch_size, dataset_size=round(size))
        for name, value in own.items()
    )
    count = -(-total // every) if every else 1
    found = {"steps": total, "evaluations": count}
    for kind, name in enumerate(("seconds", "processor seconds")):
        lasted = [ends[kind] - begins[kind] for begins, ends in spans]
        steps_of = [(then[0][kind] - before[1][kind]) / between for before, then in zip(spans, spans[1:])]
        step, evaluation = statistics.median(steps_of), statistics.median(lasted[1:])
        found[name] = {
            "step": step,
            "evaluation": evaluation,
            "first": lasted[0],
            "last": lasted[-1],
            "share": count * evaluation / (count * evaluation + total * step),
            "share with the last": count * lasted[-1] / (count * lasted[-1] + total * step),
        }
    found["metrics"] = [row for row in rows if row["split"] == "eval"][-1]
    print(json.dumps(found))


def search_steps(folder):
    """Steps of a search that finds the references, over all batches: pairs in their order, and by length."""
    import numpy as np

    from tfbigbatch.data.translation import manifest as translation_manifest
    from tfbigbatch.data.translation.dataset import TranslationRecords

    manifest, found = translation_manifest.load(folder), []
    for split in ("validation", "test"):
        # With their end.
        lengths = manifest.lengths[split][:, 1].astype(int) + 1
        by_length = TranslationRecords(manifest.splits[split], manifest, most_shapes=1, evaluate_by_length=True)
        for batch_size in (32, 128, 256):
            starts = range(0, len(lengths), batch_size)
            steps = [
                sum(int(lengths[order[start : start + batch_size]].max()) for start in starts)
                for order in (np.arange(len(lengths)), by_length.evaluation_order)
            ]
            found.append({"split": split, "batch_size": batch_size, "in order": steps[0], "by length": steps[1]})
            print(f"{split}, batches of {batch_size}: {steps[0]} steps in order, {steps[1]} by length")
    return found


def orders(run_dir, rounds):
    """Seconds and processor seconds of an evaluation of a run's checkpoint, pairs in their order and by length."""
    from tfbigbatch import train
    from tfbigbatch.data.translation import dataset
    from tfbigbatch.runs import stored_run
    from tfbigbatch.training import trainer

    spans, found = [], {"in order": [], "by length": []}
    trainer.evaluate = repeated(trainer.evaluate, spans, rounds)
    by_length = dataset.TranslationRecords
    for name, is_sorted in (("in order", False), ("by length", True)) * 2:

        def ordered(*arguments, is_sorted=is_sorted, **options):
            return by_length(*arguments, **{**options, "evaluate_by_length": is_sorted})

        dataset.TranslationRecords = ordered
        spans.clear()
        with contextlib.redirect_stdout(io.StringIO()):
            result = train.run(stored_run.config_of(run_dir), model_dir=run_dir, mode="eval")
        # The first one holds the tracing.
        lasted = [[end - start for start, end in zip(*each)] for each in spans[1:]]
        found[name] += [{"seconds": each[0], "processor seconds": each[1]} for each in lasted]
        print(name, json.dumps(lasted), json.dumps(result["metrics"]), flush=True)
    dataset.TranslationRecords = by_length
    return found


def repeated(function, spans, times):
    """The function as `timed`, called `times` and once more."""
    measured = timed(function, spans)

    def call(*arguments, **options):
        for _ in range(times):
            measured(*arguments, **options)
        return measured(*arguments, **options)

    return call


def _main(unused):
    options = flags.FLAGS
    if options.orders:
        return results_file.write(
            options.results, "evaluation.py", sys.argv[1:], orders=orders(options.orders, options.rounds)
        )
    if options.lengths:
        return results_file.write(
            options.results, "evaluation.py", sys.argv[1:], search_steps=search_steps(options.lengths)
        )
    if options.measure:
        path, data_dir, steps, evaluations = options.measure
        return measure(path, data_dir or None, int(steps), int(evaluations))
    results_file.check(options.results)
    packages = {**({"before": options.before} if options.before else {}), "now": options.package}
    rows = {}
    for each, steps, evaluations in zip(options.experiments, options.steps, options.evaluations, strict=True):
        path, _, data_dir = each.partition("=")
        rows[path] = {name: [] for name in packages}
        for name in [*packages] * options.rounds:
            done = subprocess.run(
                [sys.executable, os.path.abspath(__file__), f"--measure={path},{data_dir},{steps},{evaluations}"],
                env={**os.environ, "PYTHONPATH": os.path.abspath(packages[name])},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            rows[path][name].append(json.loads(done.stdout.splitlines()[-1]))
            print(path, name, json.dumps(rows[path][name][-1]), flush=True)
    results_file.write(options.results, "evaluation.py", sys.argv[1:], experiments=rows)


if __name__ == "__main__":
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    flags.DEFINE_list("experiments", ["digits/lstm_legw"], "EXPERIMENT or EXPERIMENT=DATA_DIR of each.")
    flags.DEFINE_list("steps", ["111"], "Training steps of each.")
    flags.DEFINE_list("evaluations", ["37"], "Evaluations of each, in its steps; three or more.")
    flags.DEFINE_string("package", here, "Folder that holds the package that is measured.")
    flags.DEFINE_string("before", None, "Folder of another checkout of the package, which takes turns.")
    flags.DEFINE_integer("rounds", 1, "Processes of each; of --orders, evaluations in each turn.", lower_bound=1)
    flags.DEFINE_string("orders", None, "In place of all that: time both orders of a trained GNMT's held-out pairs.")
    flags.DEFINE_string("results", None, "Also write the figures to this JSON file.")
    flags.DEFINE_string("lengths", None, "In place of all that: count the search steps of a folder's held-out sets.")
    flags.DEFINE_list("measure", None, "Of one process, for this command itself.")
    command.execute(_main)
