"""Many runs of one optimizer as one program: the same steps with other learning rates and seeds, side by side."""

import copy
import dataclasses
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

from tfbigbatch.config.recipe import batch_ramp, scaled_recipe, tuned_recipe
from tfbigbatch.optimizers import registry

# Rows of losses that are kept of a run.
CURVE = 100


@dataclasses.dataclass(frozen=True)
class Stage:
    """Steps of one batch size; a run without a ramp has one stage.

    Attributes:
      batch_size: examples in a step.
      rates: float32 [steps], the learning rate of each step relative to that of the recipe.
    """

    batch_size: int
    rates: np.ndarray


class Program:
    """`lanes` runs of a method at a batch size, compiled once: learning rates, seeds and data are its arguments.

    Args:
      task: a task of `task.py`.
      config: an experiment of a sweep: its optimizer, batch size, duration, schedule and ramp. A run's learning rate is
        that of its recipe, before the scaling rule.
      lanes: runs of a call.
    """

    def __init__(self, task, config, lanes):
        self.task, self.lanes = task, lanes
        self._bias = config.model.get("output_bias", "zero")
        config = copy.deepcopy(config)
        config.schedule.learning_rate = 1.0
        dataset_size = task.examples_in_epoch(config.batch_size)
        recipe = scaled_recipe(config, tuned_recipe(config, dataset_size))
        self.stages = _stages(task, config, recipe, dataset_size)
        self.steps = sum(len(stage.rates) for stage in self.stages)
        config.optimizer.update(recipe.optimizer)
        fields = {name: value for name, value in config.optimizer.to_dict().items() if value is not None}
        self._optimizer = registry.get({**fields, "learning_rate": 1.0}, keras="keras3")
        self._optimizer.build(task.network.trainable_variables)
        slots = self._optimizer.variables
        [self._rate_at] = [number for number, each in enumerate(slots) if each is self._optimizer._learning_rate]
        self._slots = [np.asarray(each.value) for each in slots]
        self.compiled = None

    def compile(self):
        """The seconds that it took."""
        start = time.perf_counter()
        arguments = self._arguments([1.0] * self.lanes, [0] * self.lanes, False)
        self.compiled = jax.jit(self._runs).lower(*arguments).compile()
        return time.perf_counter() - start

    def __call__(self, learning_rates, seeds, held_out):
        """Runs for each learning rate and seed, [lanes] of both.

        Returns:
          (metric on the validation data, on the test data, mean losses of parts of the run [lanes, parts], seconds).
        """
        arguments = jax.block_until_ready(jax.device_put(self._arguments(learning_rates, seeds, held_out)))
        start = time.perf_counter()
        validation, test, losses = jax.block_until_ready(self.compiled(*arguments))
        seconds = time.perf_counter() - start
        validation, test = (
            np.array([self.task.score(found, split) for found in np.asarray(of_lanes)])
            for split, of_lanes in (("validation", validation), ("test", test))
        )
        parts = np.array_split(np.asarray(losses, np.float64), min(CURVE, self.steps), axis=1)
        curves = np.stack([part.mean(axis=1) for part in parts], axis=1)
        return validation, test, curves, seconds

    def _arguments(self, learning_rates, seeds, held_out):
        task = self.task
        drawn = {seed: task.variables(seed, self._bias) for seed in set(seeds)}
        weights, others = zip(*(drawn[seed] for seed in seeds))
        examples = [self._examples(seed, held_out) for seed in seeds]
        return (
            task.data,
            [np.stack(values) for values in zip(*weights)],
            [np.stack(values) for values in zip(*others)],
            np.asarray(learning_rates, np.float32),
            [np.stack(values) for values in zip(*examples)],
            np.asarray(seeds, np.uint32),
        )

    def _examples(self, seed, held_out):
        """For each stage, int32 [steps, batch_size]; without columns for data in an order of their own."""
        sizes = [(len(stage.rates), stage.batch_size) for stage in self.stages]
        order = self.task.order(sum(steps * batch_size for steps, batch_size in sizes), seed, held_out)
        if order is None:
            return [np.zeros((steps, 0), np.int32) for steps, _ in sizes]
        ends = np.cumsum([steps * batch_size for steps, batch_size in sizes])[:-1]
        return [part.reshape(size) for part, size in zip(np.split(order, ends), sizes)]

    def _runs(self, data, *lanes):
        task = self.task.of(data)
        if task.mapped:
            return jax.vmap(functools.partial(self._run, task))(*lanes)
        return jax.lax.map(lambda lane: self._run(task, *lane), lanes)

    def _run(self, task, weights, others, learning_rate, examples, seed):
        key = jax.random.key(seed)
        state = weights, others, [jnp.asarray(slot) for slot in self._slots]
        losses, first_step = [], 0
        for stage, chosen in zip(self.stages, examples):
            state, of_stage = self._of_stage(task, stage, first_step, state, learning_rate, chosen, key)
            losses.append(of_stage)
            first_step += len(stage.rates)
        trained = state[:2]
        return task.metric(trained, "validation"), task.metric(trained, "test"), jnp.concatenate(losses)

    def _of_stage(self, task, stage, first_step, state, learning_rate, examples, key):
        """((weights, others, slots), losses [steps]) after a stage."""

        def step(state, given):
            weights, others, slots, carried = state
            number, share, chosen = given
            key_of_step = jax.random.fold_in(key, first_step + number)
            loss, (others, carried), gradients = self._gradients(
                task, stage.batch_size, (weights, others), carried, chosen, number, key_of_step
            )
            slots = [*slots[: self._rate_at], learning_rate * share, *slots[self._rate_at + 1 :]]
            weights, slots = self._optimizer.stateless_apply(slots, gradients, weights)
            return (list(weights), list(others), list(slots), carried), loss

        carried = jax.tree.map(jnp.asarray, task.carried(stage.batch_size))
        given = jnp.arange(len(stage.rates)), jnp.asarray(stage.rates), examples
        (*state, _), losses = jax.lax.scan(step, (*state, carried), given)
        return tuple(state), losses

    def _gradients(self, task, batch_size, state, carried, examples, number, key):
        """(loss, (others, carried), gradients), of one pass or as the means of several."""
        passes = max(1, batch_size // task.micro_batch) if task.micro_batch else 1
        weights, others = state

        def of_pass(others, examples, key):
            batch = task.batch(carried, examples, number, batch_size)
            (loss, after), gradients = jax.value_and_grad(task.loss, has_aux=True)(weights, others, batch, key)
            return loss, after, gradients

        if passes == 1:
            return of_pass(others, examples, key)

        def add(state, given):
            others, *sums = state
            loss, (others, _), gradients = of_pass(others, *given)
            return (list(others), *jax.tree.map(jnp.add, sums, [loss, gradients])), None

        zero = jnp.zeros(()), [jnp.zeros(weight.shape) for weight in weights]
        parts = examples.reshape(passes, -1), jax.random.split(key, passes)
        (others, loss, gradients), _ = jax.lax.scan(add, (others, *zero), parts)
        return loss / passes, (others, carried), [gradient / passes for gradient in gradients]


def _stages(task, config, recipe, dataset_size):
    """The stages of a config, by the arithmetic of the trainer."""
    schedule = recipe.schedule(dataset_size, keras="keras3")
    ramp = batch_ramp(config, recipe, dataset_size)
    if ramp is None:
        return [Stage(config.batch_size, _rates(schedule, recipe.total_steps(dataset_size)))]
    stages = ramp.stages_of_epochs(task.examples_in_epoch) if task.carries_state else ramp.stages(dataset_size)
    return [
        Stage(stage.batch_size, _rates(ramp.schedule_of(stage, schedule, keras="keras3"), stage.steps))
        for stage in stages
    ]


def _rates(schedule, steps):
    return np.array(jax.jit(lambda numbers: jax.lax.map(schedule, numbers))(jnp.arange(steps)), np.float32)
