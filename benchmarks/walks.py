"""Which functions of the package a step of an optimizer, an image batch or a run executes, and which call back up.

    python benchmarks/walks.py --optimizer=LAMB --backend=jax
    python benchmarks/walks.py --images
    python benchmarks/walks.py --run

Prints JSON, as `structure.py --walks` reads it. The step is one update of an optimizer of Keras 3 with its default
options, on the tiny network of `variables.py`, as a compiled step has it: `apply_gradients` traced by tf.function, or
`stateless_apply` by jax.jit. Its constructor and `build` are not recorded, nor is what a first step imports. The image
batch is the first of a training set, from the folder that `prepare-imagenet` made to the tensors on the device, and the
first of its evaluation: the manifest, the dataset's constructor, and the functions that tf.data traces. The run is
`tfbigbatch train` of a small experiment from the command to its end: the command, `train.py`, the loop, and the
functions that these three call, not what those call in their turn.

- A call is one start of a function or lambda in a file of the package. A comprehension belongs to its function.
- Its caller is the nearest function of the package on the stack, whatever frames of libraries lie between. So a closure
  that a function hands to `tf.cond` or `merge_call`, which call it at once, is called by that function, and a method
  that Keras calls by the function that called Keras.
- The files are in the order of their first calls. A call goes back up where the callee's file comes before the
  caller's, unless it is one that the caller is built on: its file imports a name of the other, or the function was an
  argument of the caller's. A function that calls its own file does not go up, whether or not TensorFlow lies between.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import inspect
import json
import os
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Collection
from typing import Any

import harness
import updates

_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
# The files of a run that call its parts.
_RUN = ("cli/main.py", "cli/train.py", "train.py", "training/loop.py")
_PARTS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class Recorder:
    """The calls within a folder while `during` runs.

    Args:
      folder: of the files that count; their names are those below it.
      callers: the files whose calls alone are recorded, with the first call of all; none for those of all files.
    """

    def __init__(self, folder: str, callers: Collection[str] = ()) -> None:
        self._folder, self._callers = os.path.join(folder, ""), callers
        self._calls: collections.Counter[tuple[str, str, int]] = collections.Counter()
        self._edges: collections.Counter[tuple[str, str]] = collections.Counter()
        self._resumed: set[types.FrameType] = set()

    def during(self, action: Callable[[], object]) -> dict[str, Any]:
        """Runs it. Returns 'functions', [file, name, calls] in the order of their first call, and 'up', [caller's
        file, callee's file, calls].
        """
        sys.setprofile(self._event)
        try:
            action()
        finally:
            sys.setprofile(None)
        files = list(dict.fromkeys(file for file, _, _ in self._calls))
        up = [[*edge, calls] for edge, calls in self._edges.items() if files.index(edge[1]) < files.index(edge[0])]
        return {"functions": [[file, name, calls] for (file, name, _), calls in self._calls.items()], "up": up}

    def _event(self, frame: types.FrameType, event: str, argument: object) -> None:
        code, file = frame.f_code, self._file(frame)
        if event != "call" or file is None or code.co_name in _PARTS or frame in self._resumed:
            return
        # The frames that wait for this one, the nearest first.
        above = [each for each, _ in traceback.walk_stack(frame.f_back)]
        if any(each.f_code.co_filename.startswith("<frozen importlib") for each in above):
            return
        if code.co_flags & _GENERATORS:
            # Each further value of a generator is an event too.
            self._resumed.add(frame)
        caller = next(filter(self._file, above), None)
        if self._callers and caller is not None and self._file(caller) not in self._callers:
            return
        self._calls[file, code.co_qualname.replace(".<locals>", ""), code.co_firstlineno] += 1
        if caller is None or any(_code(each) is code for each in caller.f_locals.values()):
            return
        if not any(_module_file(each) == code.co_filename for each in caller.f_globals.values()):
            self._edges[str(self._file(caller)), file] += 1

    def _file(self, frame: types.FrameType) -> str | None:
        path = frame.f_code.co_filename
        return path.removeprefix(self._folder) if path.startswith(self._folder) else None


def _code(value: object) -> types.CodeType | None:
    """The code of a function, or of a method, perhaps with some arguments bound."""
    value = getattr(value, "func", value)
    return getattr(getattr(value, "__func__", value), "__code__", None)


def _module_file(value: object) -> str | None:
    """The file of a module, or of the module that a function or class is of."""
    module = value if isinstance(value, types.ModuleType) else sys.modules.get(str(getattr(value, "__module__", "")))
    return getattr(module, "__file__", None)


def step(name: str, backend: str) -> Callable[[], object]:
    """One compiled step of an optimizer that is built and not traced yet."""
    os.environ["KERAS_BACKEND"] = backend
    from tfbigbatch.optimizers import keras3

    keras = "jax" if backend == "jax" else "keras3"
    return updates.of(lambda: getattr(keras3, name)(learning_rate=1e-3), "tiny", keras).run


def image_batch(folder: str) -> Callable[[], object]:
    """Reading a batch of training and one of evaluation, of 32 made-up images that are prepared in a folder."""
    import tensorflow as tf

    from tfbigbatch.data.images import dataset, manifest
    from tfbigbatch.data.records import shards, tfrecord

    image = tf.io.encode_jpeg(tf.zeros([48, 40, 3], tf.uint8)).numpy()
    records = [tfrecord.example({"image/encoded": image, "image/class/label": number % 2 + 1}) for number in range(32)]
    splits = {"train": shards.write_split(folder, "train", records)}
    manifest.save(folder, manifest.Manifest(("cat", "dog"), "image/encoded", "image/class/label", 1, splits), {})
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")

    def read() -> None:
        found = manifest.load(folder)
        images = dataset.ImageRecords(found.splits["train"], found, image_size=32)
        steps = {"seed": 0, "first_step": 0, "last_step": 1}
        for batches in (functools.partial(images.training_batches, **steps), images.evaluation_batches):
            pipeline = functools.partial(batches, batch_size=32)
            next(iter(strategy.distribute_datasets_from_function(pipeline)))

    # As it stands in the files: AutoGraph would execute copies of the functions.
    return tf.autograph.experimental.do_not_convert(read)


def small_run(folder: str) -> Callable[[], object]:
    """The command that trains the digits for 8 steps, with an evaluation and a checkpoint, into a folder."""
    from tfbigbatch.cli import main as program

    fields = ("duration=8 steps", "log_every=4 steps", "evaluate_every=8 steps", "checkpoint_every=8 steps")
    given = [f"--model_dir={folder}/run", *(f"--config.{field}" for field in fields)]

    def run() -> None:
        # The command ends its process; and what it prints is not part of the answer.
        with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(SystemExit):
            program.run_command("train", ["--config=digits/lstm_legw", *given])

    return run


def main() -> None:
    """Records and prints."""
    parser = harness.parser(__doc__)
    parser.add_argument("--images", action="store_true", help="the walk of an image batch, in place of a step")
    parser.add_argument("--run", action="store_true", help="the walk of a run")
    parser.add_argument("--optimizer", default="LAMB", help="class of tfbigbatch.optimizers.keras3 (LAMB)")
    parser.add_argument("--backend", default="tensorflow", choices=("tensorflow", "jax"), help="of Keras (tensorflow)")
    given = parser.parse_args()
    import tfbigbatch

    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(os.path.dirname(str(tfbigbatch.__file__)), _RUN if given.run else ())
        if given.run:
            action = small_run(folder)
        else:
            action = image_batch(folder) if given.images else step(given.optimizer, given.backend)
        print(json.dumps(recorder.during(action)))


if __name__ == "__main__":
    main()
