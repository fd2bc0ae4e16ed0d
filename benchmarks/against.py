"""Times this tree of the package beside another one: each measure in turn, in processes of their own.

    python benchmarks/against.py OLD_TREE --pictures=FOLDER --results=against.json
    python benchmarks/against.py OLD_TREE --updates --results=updates.json [--only=muon]
    python benchmarks/against.py OLD_TREE --steps --results=steps.json [--only=step]
    python benchmarks/against.py                        # the figures of this tree alone

| measure | what is timed |
|---|---|
| `import` | `import tfbigbatch`, in a process of its own |
| `optimizers` | a process that imports the optimizers of both Kerases |
| `refused` | a command whose config has an unknown field, until it is refused |
| `start` | `tfbigbatch train`, from the command to the run's first row of metrics |
| `run` | `tfbigbatch train` of --duration of the digits, from the command to its end |
| `save` | a checkpoint of a network's variables with LAMB's slots, into the folder that TMPDIR names |
| `images` | ten batches of 64 pictures of --pictures, cropped to 224 x 224 as the trainer reads them |

With --updates they are `import`, and an update of LAMB, LARS, Muon and AdamW at the variables of each network, on one
replica and on two, which are logical CPUs: `lamb resnet50 2`. Their memory is that of the process at its highest, slots
and all, above what it held before the optimizer's `build`. A measure that --results has is not taken again, so that the
command can be stopped and called again.

With --steps they are `start`, and for each network of `frameworks/networks.py`, in float32 on one thread: `first`, its
first step from the building on, in a process for each figure; `step`, a later one, of as many as take a second. Each
tree builds the networks with its own `frameworks/with_tfbigbatch.py`. Their memory is that of the process at its
highest, above what it held after the imports. `start_resnet50` is `start` of ImageNet's, with made-up pictures.

A tree is a folder that holds the package `tfbigbatch`, as a checkout does. The first five start a process for each
figure; the others have a process of each tree that stays. A ratio is old / new within a round, above 1 where this tree
is faster: by the clock, and of the processors' seconds, which other programs change less.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import itertools
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import harness
import variables

_POLL, _LONGEST = 0.005, 300.0  # seconds
_IMPORT = "import time; start = time.perf_counter(); import tfbigbatch; print(time.perf_counter() - start)"
_TRAIN = ("-m", "tfbigbatch", "train", "--config=digits/lstm_legw", "--model_dir=run")
_EVENTS = ("duration=1000 steps", "log_every=1 steps", "evaluate_every=0 steps")
# The command has no made-up pictures.
_RESNET50 = f"""
from tfbigbatch import train
from tfbigbatch.experiments.imagenet import resnet50
config = resnet50.get_config()
config.batch_size = 16
for name, value in (field.split("=") for field in {_EVENTS}):
    config[name] = value
train.run(config, model_dir="run", use_fake_data=True)
"""
_EXAMPLES, _BATCHES, _PICTURES = 64, 10, 512
_SECONDS = 1.0  # of the steps of a turn
_NETWORKS = ("mnist_lstm_128", "mnist_lstm_8192", "ptb_small_20", "ptb_small_640", "resnet50_16", "bert_4x256_16")
_NETWORKS += ("gnmt_multi30k_64",)
_CLASSES = {"lamb": "LAMB", "lars": "LARS", "muon": "Muon", "adamw": "AdamW"}


def _run(tree: str, *arguments: str, fails: bool = False) -> str:
    """What a command of a tree prints; its errors are shown if it ends as it should not."""
    with tempfile.TemporaryDirectory() as folder:
        # With -m the working folder would come first: the package must be found by PYTHONPATH.
        environment = {**os.environ, "PYTHONPATH": tree}
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if bool(done.returncode) != fails:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def _start(tree: str, *arguments: str) -> float:
    """Seconds from the command to the first row of metrics; the run is then ended."""
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "wb") as log:
        started, metrics = time.perf_counter(), os.path.join(folder, "run", "metrics.jsonl")
        command, environment = [sys.executable, *arguments], {**os.environ, "PYTHONPATH": tree}
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            while not os.path.exists(metrics) or not os.path.getsize(metrics):
                if process.poll() is not None or time.perf_counter() - started > _LONGEST:
                    with open(log.name, encoding="utf-8") as said:
                        raise RuntimeError(f"the run ended before its first step:\n{said.read()[-2000:]}")
                time.sleep(_POLL)
            return time.perf_counter() - started
        finally:
            process.kill()
            process.wait()


# The measures that start a process for each figure: functions of a tree and the options. A float is the seconds;
# otherwise the process is timed.
_COMMANDS: dict[str, Callable[[str, Any], Any]] = {
    "import": lambda tree, given: float(_run(tree, "-c", _IMPORT)),
    "optimizers": lambda tree, given: _run(tree, "-c", "from tfbigbatch.optimizers import keras2, keras3"),
    "refused": lambda tree, given: _run(tree, *_TRAIN, "--config.no_such_field=1", fails=True),
    "start": lambda tree, given: _start(tree, *_TRAIN, *(f"--config.{field}" for field in _EVENTS)),
    "start_resnet50": lambda tree, given: _start(tree, "-c", _RESNET50),
    "run": lambda tree, given: _run(tree, *_TRAIN, f"--config.duration={given.duration}"),
}


# ----------------------------------------------------------------------------- processes that stay, one of each tree


def _updates(given: Any) -> Callable[[str], harness.Figures]:
    """Answers any line with the seconds of one update and the peak of the memory until then."""
    import updates

    name, model, replicas = given.worker.split()
    face = importlib.import_module(f"tfbigbatch.optimizers.{'keras2' if given.keras == 'tf_keras' else 'keras3'}")
    make = getattr(face, _CLASSES[name])
    update = updates.of(lambda: make(learning_rate=1e-3), model, given.keras, int(replicas))
    update.run()
    return lambda line: {**update.timed(), "memory": update.memory()}


def _saves(given: Any) -> Callable[[str], harness.Figures]:
    """Answers any line with the seconds of a save."""
    import tf_keras

    from tfbigbatch import optimizers
    from tfbigbatch.training.checkpoints import Checkpoints

    network = tf_keras.Sequential([tf_keras.layers.Input((1,))])
    network.variables_to_save = variables.make(given.variables[0], "tf_keras")
    optimizer = optimizers.get("lamb", keras="tf_keras", learning_rate=1e-3)
    optimizer.build(network.variables_to_save)
    folder = tempfile.TemporaryDirectory()
    checkpoints, steps = Checkpoints(network, optimizer, folder.name), itertools.count(1)
    return lambda line: harness.timed(lambda: checkpoints.save(next(steps))) if folder else {}


def _images(given: Any) -> Callable[[str], harness.Figures]:
    """Prepares a folder of pictures with the tree's own command, then times batches of it."""
    import input as input_benchmark

    scratch = tempfile.TemporaryDirectory()
    folder, paths = scratch.name, list(harness.jpegs(given.pictures))
    for number in range(_PICTURES):
        source = paths[number % len(paths)]
        place = os.path.join(folder, "source", "train", f"class_{number % len(paths) % 10}")
        os.makedirs(place, exist_ok=True)
        os.symlink(os.path.abspath(source), os.path.join(place, f"{number}.jpg"))
    options = (f"--source={folder}/source", f"--output_dir={folder}/prepared")
    _run(os.environ["PYTHONPATH"], "-m", "tfbigbatch", "prepare-imagenet", *options)
    train = input_benchmark.training_data("imagenet/resnet50", data_dir=f"{folder}/prepared")

    def read(line: str) -> harness.Figures:
        # An iterator for each turn, in a folder that is there as long as this function: one that stayed would read on
        # while the other tree is timed.
        assert os.path.exists(scratch.name), line
        batches = input_benchmark.batches(train, _EXAMPLES, count=_BATCHES)
        return harness.timed(lambda: [next(batches) for _ in range(_BATCHES)])

    return read


def _steps(given: Any) -> Callable[[str], harness.Figures]:
    """Answers any line with the seconds of a step, or of the first one, and the peak of the memory until then."""
    os.environ["TF_NUM_INTRAOP_THREADS"] = "1"
    sys.path.insert(0, os.path.join(os.environ["PYTHONPATH"], "benchmarks", "frameworks"))
    import networks
    import with_tfbigbatch

    kind, name = given.worker.split()
    network, memory = networks.NETWORKS[name], harness.memory()
    # Steps in a call, which the experiment said before 0.3.
    inner = getattr(network, "inner_steps", 1)
    if kind == "first":
        network = dataclasses.replace(network, inner_steps=1) if inner > 1 else network
        return lambda line: {**harness.timed(lambda: with_tfbigbatch.Step(network).run(1)), "memory": memory()}
    step = with_tfbigbatch.Step(network)
    step.run(inner)
    steps = inner * math.ceil(_SECONDS / harness.timed(lambda: step.run(inner))["seconds"])

    def turn(line: str) -> harness.Figures:
        found = harness.timed(lambda: step.run(steps))
        return {**{kind: value / steps for kind, value in found.items()}, "memory": memory()}

    return turn


_WORKERS = {"save": _saves, "images": _images, "first": _steps, "step": _steps}


@contextlib.contextmanager
def _contenders(measure: str, trees: dict[str, str], given: Any) -> Iterator[dict[str, Callable[[], harness.Figures]]]:
    """A function for each tree that takes one figure."""
    if measure in _COMMANDS:
        yield {
            name: lambda tree=tree: harness.timed_command(lambda: _COMMANDS[measure](tree, given))
            for name, tree in trees.items()
        }
        return
    arguments = [os.path.abspath(__file__), *sys.argv[1:], f"--worker={measure}"]
    backend = "jax" if given.keras == "jax" else "tensorflow"

    def start(tree: str) -> harness.Worker:
        return harness.Worker(arguments, environment={"PYTHONPATH": tree, "KERAS_BACKEND": backend})

    def once(tree: str) -> harness.Figures:
        with contextlib.closing(start(tree)) as worker:
            worker.ask()
            return worker.ask("turn")

    if measure.startswith("first"):
        yield {name: lambda tree=tree: once(tree) for name, tree in trees.items()}
        return
    with contextlib.ExitStack() as stack:
        workers = {name: stack.enter_context(contextlib.closing(start(tree))) for name, tree in trees.items()}
        for worker in workers.values():
            worker.ask()
        yield {name: lambda worker=worker: worker.ask("turn") for name, worker in workers.items()}


def _row(measure: str, found: dict[str, list[harness.Figures]]) -> list[str]:
    middle = {name: harness.medians(rounds) for name, rounds in found.items()}
    cells = [measure, *(f"{figures['seconds']:.4g}" for figures in middle.values())]
    has_memory = "memory" in middle["new"]
    memory = [f"{figures['memory'] / 1e6:,.0f}" if has_memory else "" for figures in middle.values()]
    if "old" not in found:
        return cells + memory
    kinds = ["seconds", "cpu_seconds", *["memory"] * has_memory]
    ratios = [f"{harness.ratio(found['new'], found['old'], kind):.3f}" for kind in kinds]
    return [*cells, *ratios[:2], *memory, *(ratios[2:] or [""])]


def main() -> None:
    """Measures, prints the table, writes the file."""
    parser = harness.parser(__doc__)
    parser.add_argument("old", nargs="?", help="folder of the other tree")
    parser.add_argument("--new", default=harness.ROOT, help="folder of this tree")
    parser.add_argument("--updates", action="store_true", help="measure the updates")
    parser.add_argument("--steps", action="store_true", help="measure the training steps")
    parser.add_argument("--only", help="measures, or words of theirs, with commas between")
    parser.add_argument("--rounds", type=int, default=5, help="of each measure that starts processes (5)")
    parser.add_argument("--turns", type=int, default=25, help="of those whose processes stay (25)")
    parser.add_argument(
        "--seconds", type=float, default=60, help="of the turns of an update, but at least 5 turns (60)"
    )
    networks = {"type": harness.some_of(variables.MODELS), "default": ["resnet50", "bert_base"]}
    parser.add_argument("--variables", **networks, help="of the updates, and of `save` the first (resnet50,bert_base)")
    parser.add_argument("--keras", default="keras3", choices=("tf_keras", "keras3", "jax"), help="of updates (keras3)")
    parser.add_argument("--duration", default="600 steps", help="of `run` (600 steps)")
    parser.add_argument("--pictures", help="folder of JPEGs for `images`, which is left out without it")
    parser.add_argument("--results", help="also write the figures to this JSON file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        return harness.serve(lambda: _WORKERS.get(given.worker.split()[0], _updates)(given))
    measures = [*_COMMANDS, "save", *["images"] * bool(given.pictures)]
    if given.steps:
        measures = ["start", "start_resnet50", *map(" ".join, itertools.product(("first", "step"), _NETWORKS))]
    if given.updates:
        replicas = (1,) if given.keras == "jax" else (1, 2)
        measures = ["import", *map(" ".join, itertools.product(_CLASSES, given.variables, map(str, replicas)))]
    asked = measures
    if given.only:
        words = given.only.split(",")
        asked = [measure for measure in measures if {measure, *measure.split()} & set(words)]
        if unknown := set(words) - set(" ".join(measures).split()) - set(measures):
            parser.error(f"--only={','.join(sorted(unknown))}: expected words of {', '.join(measures)}")
    trees = {**({"old": os.path.abspath(given.old)} if given.old else {}), "new": os.path.abspath(given.new)}
    found = harness.read(given.results).get("measured", {})
    for measure in asked:
        if measure in found:
            continue
        count = given.rounds if measure in _COMMANDS or measure.startswith("first") else given.turns
        with _contenders(measure, trees, given) as contenders:
            found[measure] = harness.in_turns(
                contenders,
                count,
                say=lambda line: print(f"{measure}, {line}", file=sys.stderr, flush=True),
                seconds=given.seconds if given.updates or given.steps else math.inf,
            )
        harness.write(given.results, measured=found)
    paired = bool(given.old)
    headings = ["seconds, median", *trees, *["old / new", "of the processors"] * paired]
    headings += [*(f"MB, {name}" for name in trees), *["old / new"] * paired]
    print(harness.table(headings, [_row(*each) for each in found.items()]))


if __name__ == "__main__":
    main()
