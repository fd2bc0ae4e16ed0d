"""Many runs of one optimizer as one program: the same steps with other learning rates and seeds, side by side."""

import contextlib
import functools
import time

import jax
import jax.numpy as jnp
import keras
import numpy as np

from tfbigbatch import schedules
from tfbigbatch.optimizers import registry
from tfbigbatch.schedules import durations

# Rows of losses that are kept of a run.
CURVE = 100


class Program:
    """`lanes` runs of a method at a batch size, compiled once: learning rates, seeds and data are its arguments.

    Args:
      task: a task of `tasks.py`.
      config: an experiment of the study: its optimizer, batch size, duration and schedule.
      lanes: runs of a call.
      share: of the steps that are taken, to try it.
    """

    def __init__(self, task, config, lanes, share=1.0):
        self.task, self.lanes = task, lanes
        self.batch_size = config.batch_size
        in_epoch = task.steps_in_epoch(self.batch_size)
        epochs, unit = durations.parsed(config.duration)
        whole = round(epochs * in_epoch) if unit == "epoch" else round(epochs)
        # Relative to the highest learning rate, which is a lane's own.
        self.shape = np.array(_schedule(config.schedule, whole, in_epoch), np.float32)[: max(1, round(share * whole))]
        self.steps = len(self.shape)
        fields = {name: value for name, value in config.optimizer.items() if value is not None}
        self._optimizer = registry.get({**fields, "learning_rate": 1.0}, keras="keras3")
        variables = [_variable(path, shape) for path, shape in task.shapes.items()]
        self._optimizer.build(variables)
        slots = self._optimizer.variables
        [self._rate_at] = [number for number, each in enumerate(slots) if each is self._optimizer._learning_rate]
        self._slots = [np.asarray(each.value) for each in slots]
        self.compiled = None

    def compile(self):
        """The seconds that it took."""
        start = time.perf_counter()
        arguments = self._arguments([1.0] * self.lanes, [0] * self.lanes, False, "frequency")
        self.compiled = jax.jit(self._runs).lower(*arguments).compile()
        return time.perf_counter() - start

    def __call__(self, learning_rates, seeds, held_out, bias="frequency"):
        """What came of a run for each learning rate and seed, [lanes] of both.

        Returns:
          (metric on the validation data, on the test data, mean losses of parts of the run [lanes, parts], seconds).
        """
        arguments = jax.block_until_ready(jax.device_put(self._arguments(learning_rates, seeds, held_out, bias)))
        start = time.perf_counter()
        validation, test, losses = jax.block_until_ready(self.compiled(*arguments))
        seconds = time.perf_counter() - start
        parts = np.array_split(np.asarray(losses, np.float64), min(CURVE, self.steps), axis=1)
        curves = np.stack([part.mean(axis=1) for part in parts], axis=1)
        return np.asarray(validation, np.float64), np.asarray(test, np.float64), curves, seconds

    def _arguments(self, learning_rates, seeds, held_out, bias):
        task = self.task
        weights = [task.weights(seed, bias) for seed in seeds]
        examples = [task.training_examples(self.steps, self.batch_size, seed, held_out) for seed in seeds]
        return (
            task.data,
            [np.stack(values) for values in zip(*weights)],
            np.asarray(learning_rates, np.float32),
            np.stack(examples),
            np.asarray(seeds, np.uint32),
        )

    def _runs(self, data, *lanes):
        task = self.task.of(data)
        if task.mapped:
            return jax.vmap(functools.partial(self._run, task))(*lanes)
        return jax.lax.map(lambda lane: self._run(task, *lane), lanes)

    def _run(self, task, weights, learning_rate, examples, seed):
        key = jax.random.key(seed)

        def step(state, given):
            weights, slots, carried = state
            number, share, chosen = given
            loss, carried, gradients = self._gradients(
                task, weights, carried, chosen, number, jax.random.fold_in(key, number)
            )
            slots = [*slots[: self._rate_at], learning_rate * share, *slots[self._rate_at + 1 :]]
            weights, slots = self._optimizer.stateless_apply(slots, gradients, weights)
            return (list(weights), list(slots), carried), loss

        carried = task.carried(self.batch_size)
        start = weights, [jnp.asarray(slot) for slot in self._slots], jax.tree.map(jnp.asarray, carried)
        given = jnp.arange(self.steps), jnp.asarray(self.shape), examples
        (weights, _, _), losses = jax.lax.scan(step, start, given)
        return task.metric(weights, "validation"), task.metric(weights, "test"), losses

    def _gradients(self, task, weights, carried, examples, number, key):
        passes = max(1, self.batch_size // task.micro_batch) if task.micro_batch else 1

        def of_pass(carried, examples, key):
            batch = task.batch(carried, examples, number, self.batch_size)
            (loss, carried), gradients = jax.value_and_grad(task.loss, has_aux=True)(weights, batch, key)
            return loss, carried, gradients

        if passes == 1:
            return of_pass(carried, examples, key)

        def add(sums, given):
            loss, _, gradients = of_pass(carried, *given)
            return jax.tree.map(jnp.add, sums, (loss, gradients)), None

        zero = jnp.zeros(()), [jnp.zeros(weight.shape) for weight in weights]
        parts = examples.reshape(passes, -1), jax.random.split(key, passes)
        (loss, gradients), _ = jax.lax.scan(add, zero, parts)
        return loss / passes, carried, [gradient / passes for gradient in gradients]


def _schedule(fields, total_steps, steps_in_epoch):
    """The learning rate of each step, relative to its peak."""
    options = {"power": fields.power} if fields.decay == "polynomial" else {}
    schedule = schedules.by_name.build(
        1.0,
        warmup_steps=round(fields.warmup_epochs * steps_in_epoch),
        total_steps=total_steps,
        decay=fields.decay,
        keras="keras3",
        **options,
    )
    return jax.jit(lambda steps: jax.lax.map(schedule, steps))(jnp.arange(total_steps))


def _variable(path, shape):
    """A variable of Keras with this path: the optimizers' patterns read it."""
    *layers, last = path.split("/")
    with contextlib.ExitStack() as scopes:
        for layer in layers:
            scopes.enter_context(keras.name_scope(layer))
        return keras.Variable(np.zeros(shape, np.float32), name=last)
