"""Advice for any compiled Keras model and its dataset."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tfbigbatch import keras_version
from tfbigbatch.advice import examples, noise, step_times
from tfbigbatch.advice.advice import Advice, check_measured
from tfbigbatch.advice.examples import Examples
from tfbigbatch.advice.noise import Clock, LossWatch, Moments
from tfbigbatch.advice.suggestion import Optimizer
from tfbigbatch.errors import InputError
from tfbigbatch.instruments import time_constants
from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.instruments.probe.model import tensor_variable, untouched
from tfbigbatch.scaling.recipe import Recipe
from tfbigbatch.utils import arguments

# Steps between two measurements of the noise; micro-batches that one is made from.
_EVERY, _MICRO_BATCHES = 4, 8
_MOST_STEPS = 2000
_NOISE_PART, _SPEED_PART = 0.5, 0.3


def advise(
    model: Any,
    dataset: Any,
    *,
    batch_size: int,
    epochs: float | None = None,
    learning_rate: float | None = None,
    warmup_epochs: float = 0.0,
    dataset_size: int | None = None,
    seconds: float = 60.0,
    replicas: int = 1,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> Advice:
    """Measures a compiled model for a while, and says which batch size is worth using and with which recipe.

    Trains it at the tuned batch size while `instruments.GradientNoiseScale` measures, then times its training step at
    powers of two of that batch. At the end weights and optimizer are as before. Begin with the weights that training
    begins with, or with those of a checkpoint for the noise scale at that point. Warns as `tfbigbatch.check` does, of
    the advised steps.

    Args:
      model: of Keras 2 or 3 (on TensorFlow), compiled with a loss and an optimizer.
      dataset: (x, y) or (x, y, sample_weight) of arrays, or a batched tf.data.Dataset of them, from which the
        first 16,384 examples are read.
      batch_size: the batch that the recipe was tuned at, in examples.
      epochs: length of the tuned run; None leaves out what depends on it.
      learning_rate: the tuned peak; None for the optimizer's, if that is a number.
      warmup_epochs: of the tuned recipe.
      dataset_size: examples in an epoch; None where the dataset tells.
      seconds: about how long the measurements may take, tracing included.
      replicas: sets of the model's devices to plan for; what they exchange is not counted.
      seed: of the batches.
      say: called with lines of progress; None for none.

    Returns:
      Advice: `print` it, or see its `batch_size`, `suggestion`, `rows` and `plot(path)`.

    Raises:
      ValueError: an argument cannot be used, or nothing can be measured.
    """
    started = time.perf_counter()
    number, whole = arguments.number, arguments.integer
    batch_size = whole("batch_size", batch_size, least=2, owner="advise")
    replicas = whole("replicas", replicas, least=1, owner="advise")
    seconds = number("seconds", seconds, above=0.0, owner="advise")
    epochs = None if epochs is None else number("epochs", epochs, above=0.0, owner="advise")
    keras = _keras_of(model)
    data = _examples(dataset, dataset_size, batch_size)
    tuned = Recipe(batch_size, _learning_rate(model, learning_rate), warmup_epochs, epochs=epochs)
    measured = _measured(model, keras, data, tuned, replicas=replicas, seconds=seconds, seed=seed, say=say or _quiet)
    advice = Advice(
        title=model.name,
        tuned=tuned,
        optimizer=_optimizer(model),
        dataset_size=data.dataset_size,
        replicas=replicas,
        seconds=time.perf_counter() - started,
        **measured,
    )
    if advice.suggestion.steps is not None:
        time_constants.check(model, advice.suggestion.steps)
    return advice


def _quiet(line: str) -> None:
    del line


def _examples(dataset: Any, dataset_size: int | None, batch_size: int) -> Examples:
    """The examples of a dataset, enough of them for larger batches."""
    if dataset_size is not None:
        dataset_size = arguments.integer("dataset_size", dataset_size, least=1, owner="advise")
    data = examples.read(dataset, dataset_size)
    if len(data) < 4 * batch_size:
        raise InputError(
            f"not measurable: {len(data):,} examples are too few for a tuned batch of {batch_size:,} and larger ones; "
            "expected four batches or more."
        )
    return data


def _measured(
    model: Any,
    keras: str,
    data: Examples,
    tuned: Recipe,
    *,
    replicas: int,
    seconds: float,
    seed: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """The measured fields of `Advice`; the model is as before at the end."""
    began, batch_size = time.perf_counter(), tuned.batch_size
    with model.distribute_strategy.scope():
        variables = _built(model, data)
        try:
            with untouched(variables):
                steps = _steps(tuned, data.dataset_size)
                moments = _noise(model, data, batch_size, steps, keras, _NOISE_PART * seconds, seed, say)
                points = noise.points(moments)
                left = max(_SPEED_PART * seconds, seconds - (time.perf_counter() - began))
                sizes = _sizes(batch_size, len(data), replicas)
                times = step_times.measure(lambda size: _step(model, data, size, seed), sizes, seconds=left, say=say)
        finally:
            # It was traced for one batch size; fit traces it again.
            model.train_function = None
    check_measured(times)
    return {"moments": moments, "points": points, "times": times}


def _keras_of(model: Any) -> str:
    """'tf_keras' or 'keras3'."""
    packages = {cls.__module__.partition(".")[0] for cls in type(model).__mro__}
    found = "tf_keras" if "tf_keras" in packages else "keras3" if "keras" in packages else None
    if found is None:
        raise InputError(f"advise: model is a {type(model).__name__}; expected a model of Keras 2 or 3.")
    keras = keras_version.keras_package(found)
    if found == "keras3" and keras.backend.backend() != "tensorflow":
        raise InputError(
            f"advise: Keras runs on {keras.backend.backend()}; expected TensorFlow: set KERAS_BACKEND=tensorflow."
        )
    if getattr(model, "optimizer", None) is None or not getattr(
        model, "compiled", getattr(model, "_is_compiled", True)
    ):
        raise InputError("advise: the model is not compiled; expected model.compile(optimizer, loss) before.")
    executions: Any = getattr(model, "steps_per_execution", None) or getattr(model, "_steps_per_execution", None) or 1
    if int(executions) != 1:
        raise InputError(f"advise: steps_per_execution={int(executions)}; expected 1: compile the model without it.")
    return found


def _learning_rate(model: Any, given: float | None) -> float:
    if given is not None:
        return arguments.number("learning_rate", given, above=0.0, owner="advise")
    optimizer = innermost(model.optimizer)
    config = optimizer.get_config().get("learning_rate")
    if isinstance(config, (dict, type(None))) or callable(config):
        raise InputError(
            f"advise: {type(optimizer).__name__} has a learning-rate schedule; give learning_rate, its peak, and "
            "warmup_epochs."
        )
    return float(config)


def _built(model: Any, data: Examples) -> list[tf.Variable]:
    """The variables of the model and its optimizer, both built."""
    if not model.built:
        model(data.batch(1, 0)[0])
    optimizer = model.optimizer
    (optimizer if hasattr(optimizer, "build") else innermost(optimizer)).build(model.trainable_variables)
    own = innermost(optimizer).variables
    found = [*model.weights, *(own() if callable(own) and not isinstance(own, list) else own)]
    return [tensor_variable(variable) for variable in found]


def _steps(tuned: Recipe, dataset_size: int) -> int:
    total = _MOST_STEPS if tuned.epochs is None else tuned.total_steps(dataset_size)
    return max(min(total, 8 * _EVERY), min(_MOST_STEPS, total // 2))


def _noise(
    model: Any, data: Examples, batch_size: int, steps: int, keras: str, seconds: float, seed: int, say: Any
) -> list[Moments]:
    """The moments of the gradient at every few steps of `fit`."""
    size = _MICRO_BATCHES * max(1, min(batch_size, len(data) // 2) // _MICRO_BATCHES)

    def probe(step: int) -> Any:
        return data.batch(size, seed + 1 + step)

    instrument = keras_version.module_for("tfbigbatch.instruments", keras).GradientNoiseScale(
        # With a smoothing of 0 an entry of the history is of one measurement.
        probe=probe,
        micro_batches=_MICRO_BATCHES,
        when=_EVERY,
        smoothing=0.0,
    )
    clock, loss = Clock(seconds), LossWatch()

    def stop(batch: int, logs: Any = None) -> None:
        loss.add((logs or {}).get("loss"))
        if clock.is_over(len(instrument.history)):
            model.stop_training = True

    callbacks = importlib.import_module(f"{keras_version.PACKAGES[keras]}.callbacks")
    say(f"noise      up to {steps:,} steps at batch {batch_size:,}")
    model.fit(
        data.batches(batch_size, steps, seed),
        epochs=1,
        verbose=0,
        callbacks=[instrument, callbacks.LambdaCallback(on_train_batch_end=stop)],
    )
    loss.check()
    return [Moments(each["step"], each["squared_norm"], each["trace"]) for each in instrument.history]


def _sizes(batch_size: int, examples_there: int, replicas: int) -> Iterator[int]:
    """Batches of one replica, ascending, for global batches of powers of two times the tuned one."""
    size, last = batch_size, 0
    while size <= examples_there * replicas:
        own = max(1, size // replicas)
        if own > examples_there:
            return
        if own > last:
            yield own
        last, size = own, 2 * size


def _step(model: Any, data: Examples, size: int, seed: int) -> step_times.Step:
    batch = tf.data.Dataset.from_tensors(data.batch(size, seed)).repeat()
    iterator = iter(model.distribute_strategy.experimental_distribute_dataset(batch))
    # Traced for this size, not for any size.
    model.make_train_function(force=True)
    function, counter = model.train_function, tensor_variable(innermost(model.optimizer).iterations)

    def step() -> None:
        function(iterator)
        counter.numpy()

    return step


def _optimizer(model: Any) -> Optimizer:
    optimizer = innermost(model.optimizer)
    clips = any(getattr(optimizer, name, None) for name in ("global_clipnorm", "clipnorm", "clipvalue"))
    layers = model._flatten_layers() if hasattr(model, "_flatten_layers") else model.layers
    name = type(optimizer).__name__
    return Optimizer.of("momentum" if name == "SGD" else name, clips=clips, layers=layers)
