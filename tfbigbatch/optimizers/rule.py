"""What an optimizer is made of: a rule, which steps one layer, with its hyperparameters; and what it is told in a step.

A rule reads like the algorithm of its paper. It is pure: `update` maps a gradient, the weight and the slots, such as
moments, to new ones, by functions of tensors of any backend. `step` has the order of a whole step around it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import math
import types
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from tfbigbatch.errors import InputError
from tfbigbatch.optimizers import declared, exclusions
from tfbigbatch.optimizers.declared import Changing, Declared, Group, Hyperparameter, hyper
from tfbigbatch.utils import arguments

# What an optimizer outside of this package is written with; `declared` has the checks of hyperparameters.
__all__ = ["AdaptedRule", "Layer", "MatrixRule", "Now", "Rule", "hyper", "of", "trust_ratio"]

# A tensor of any backend.
Tensor = Any
# How a rule reads a layer as matrices or blocks: `matrices.MatrixView`, `blocks.BlockView`.
View = Any
Bounds = tuple[float | None, float | None]
# (new weight, new slots, trust ratio)
Updated = tuple[Tensor, Sequence[Tensor], Tensor]

_OF_KERAS = ("jax", "jaxlib", "torch")


def of(tensor: Tensor) -> types.ModuleType:
    """The functions of tensors that formulas are written in: `ops_tensorflow`, or `ops_keras` on JAX and PyTorch.

    Their names are those of `keras.ops`; where TensorFlow runs they are its own functions: nothing comes between.
    """
    package = type(tensor).__module__.partition(".")[0]
    return _module("ops_keras" if package in _OF_KERAS else "ops_tensorflow")


@functools.cache
def _module(name: str) -> types.ModuleType:
    return importlib.import_module(f"tfbigbatch.optimizers.{name}")


# ---- What a rule is told ------------------------------------------------------------------------


class Averaging(NamedTuple):
    """The moving averages of the weights in a step: their decay, and a bool tensor (or None) to take them over."""

    momentum: Any
    overwrites: Any


class Now(NamedTuple):
    """The scalars of one step, read at its beginning.

    Attributes:
      number: of the step, from 1; float32, or the dtype of the layer's arithmetic.
      learning_rate: of the same dtype.
      weight_decay: a float or a tensor; in a rule 0.0 for a layer without.
      micro_batches: number of micro-batches in the gradients: an int or an integer tensor.
      averaging: of the weights; None without.
    """

    number: Tensor
    learning_rate: Tensor
    weight_decay: Any = 0.0
    micro_batches: Any = 1
    averaging: Averaging | None = None

    def of_layer(self, layer: Layer, dtype: Any) -> Now:
        """The same for one layer, in the dtype of its arithmetic."""
        ops = of(self.learning_rate)
        weight_decay = self.weight_decay if layer.decay else 0.0
        return self._replace(
            number=ops.cast(self.number, dtype),
            learning_rate=ops.cast(self.learning_rate, dtype),
            weight_decay=ops.cast(weight_decay, dtype) if hasattr(weight_decay, "dtype") else weight_decay,
        )

    def mean(self, total: Any) -> Any:
        """A sum over the micro-batches divided by their number."""
        count = self.micro_batches
        if isinstance(count, int) and count == 1:
            return total
        if hasattr(count, "dtype"):
            count = of(count).cast(count, total.dtype if hasattr(total, "dtype") else "float32")
        return total / count


class LayerStatistics(NamedTuple):
    """One layer's last step: its trust ratio (1 where excluded), |w| before it, and |change of w|."""

    trust_ratio: float
    weight_norm: float
    update_norm: float


@dataclasses.dataclass(eq=False)
class Layer:
    """One model variable: what applies to it, and its state.

    Attributes:
      index: its position among the variables.
      path: its name in the model.
      variable: of the model.
      decay, adapt: whether weight decay and layer adaptation apply to it.
      view: how the rule reads it as matrices; None where it is stepped entry by entry.
      slots, accumulator: variables; empty and None where another process has them.
      average: variable of the moving average of the weights; None without.
      statistics: variable [3] of the last step's; None where none are kept.
      owner: number of the replica that updates it; None: all do.
    """

    index: int
    path: str
    variable: Any
    decay: bool
    adapt: bool
    view: View = None
    slots: list[Any] = dataclasses.field(default_factory=list)
    accumulator: Any = None
    average: Any = None
    statistics: Any = None
    owner: int | None = None


# ---- Micro-batches ---------------------------------------------------------------------------


@dataclasses.dataclass(unsafe_hash=True)
class AccumulationSchedule:
    """Micro-batches of every optimizer step, in stages: the `accumulation_steps` of LARS, LAMB, Muon and Shampoo.

    `fit` keeps its batch, and with it its one compiled shape; the optimizer applies the mean over 1, 2, 4, ... of them.
    `BatchRamp.accumulation` makes the schedule of a ramp. Its config is part of the optimizer's, in both Keras.

    Args:
      micro_batches: micro-batches in a step of each stage, 1 or more.
      steps: optimizer steps of each stage, 1 or more; the last stage continues.

    Raises:
      ValueError: a number cannot be used, there is no stage, or the two differ in length.
    """

    micro_batches: Sequence[int]
    steps: Sequence[int]

    def __post_init__(self) -> None:
        label = type(self).__name__
        self.micro_batches = tuple(arguments.integers("micro_batches", self.micro_batches, least=1, owner=label))
        self.steps = tuple(arguments.integers("steps", self.steps, least=1, owner=label))
        if not self.steps or len(self.micro_batches) != len(self.steps):
            raise InputError(
                f"{label}: micro_batches={list(self.micro_batches)} for stages of {list(self.steps)} steps; expected "
                "one number of micro-batches for each stage, and at least one stage."
            )

    def __call__(self, step: Any) -> Any:
        """The micro-batches of an optimizer step, counted from 0: an integer tensor of the shape of `step`."""
        ops = of(step)
        step = ops.cast(step, ops.INTEGER)
        count = ops.zeros_like(step) + self.micro_batches[0]
        starts = itertools.accumulate(self.steps[:-1])
        for start, (before, after) in zip(starts, itertools.pairwise(self.micro_batches)):
            count += ops.cast(step >= start, ops.INTEGER) * (after - before)
        return count

    def get_config(self) -> dict[str, Any]:
        return {"micro_batches": list(self.micro_batches), "steps": list(self.steps)}


def _micro_batches(label: str, name: str, value: Any) -> int | AccumulationSchedule:
    """A check for a whole number of micro-batches, or a schedule of them, also by its config."""
    if isinstance(value, AccumulationSchedule):
        return value
    if isinstance(value, Mapping) and set(value) == {"micro_batches", "steps"}:
        return AccumulationSchedule(**value)
    expected = "a whole number of micro-batches of 1 or more, or BatchRamp.accumulation(...)"
    return int(declared.integer(least=1, expected=expected)(label, name, value))


# ---- Rules --------------------------------------------------------------------------------------


class Rule(Declared):
    """The step of one layer, and the hyperparameters that all optimizers take."""

    learning_rate: Changing = hyper(
        declared.changing,
        "float, Keras schedule, or callable without arguments; counts optimizer steps.",
        default=0.001,
        kw_only=False,
    )
    weight_decay: Changing = hyper(declared.decay, "float, Keras schedule, or callable without arguments.", default=0.0)
    # Under another name than the argument: Keras has a method of that name.
    decay_exclusions: Sequence[str] | str | None = hyper(
        declared.patterns,
        "'norm_and_bias', biases and what normalisation layers own; or regular expressions, searched in the "
        "variables' paths, with that text among them or not. [] or None: nothing is excluded. A pattern that matches "
        "nothing warns when the variables are known.",
        default="norm_and_bias",
        alias="exclude_from_weight_decay",
    )
    accumulation_steps: int | AccumulationSchedule = hyper(
        _micro_batches,
        "micro-batches in a step, with any `fit`; or a schedule of them, from `BatchRamp.accumulation`. The "
        "mean of their gradients is applied at the last; every micro-batch costs a reduction over the replicas "
        "(`optimizers.accumulate_gradients` needs one a step). `iterations` counts steps.",
        default=1,
    )
    keeps_statistics: bool = hyper(
        declared.flag,
        "keep each layer's trust ratio and norms for `layer_statistics()`.",
        default=False,
        alias="layer_statistics",
    )
    shard_updates: bool = hyper(
        declared.flag,
        "each replica has the state of its share of the layers, updates these, and sends them to the others (ZeRO's "
        "first stage; `optimizers.sharing`). The weights are the same. MirroredStrategy and "
        "MultiWorkerMirroredStrategy.",
        default=False,
    )
    jit_compile: bool | None = hyper(
        declared.optional(declared.flag),
        "compile each layer's step with XLA; None means where a GPU is visible.",
        default=None,
    )
    # 0 means no clipping, as in Keras.
    clipnorm: float | None = hyper(
        declared.optional(declared.not_negative),
        "as in Keras, of the sum over micro-batches and replicas.",
        default=None,
    )
    clipvalue: float | None = hyper(declared.optional(declared.not_negative), "likewise.", default=None)
    global_clipnorm: float | None = hyper(declared.optional(declared.not_negative), "likewise.", default=None)
    use_ema: bool = hyper(declared.flag, "as in Keras.", default=False)
    ema_momentum: float = hyper(declared.number(least=0.0, most=1.0), "as in Keras.", default=0.99)
    ema_overwrite_frequency: int | None = hyper(declared.optional(declared.count), "as in Keras.", default=None)
    # Keras' automatic names are numbered over the life of a process: another one would not find the state by name.
    name: str | None = hyper(
        declared.text, "as in Keras, for None too; '' is the name of the rule, such as 'LAMB'.", default=""
    )

    # Names of the state variables of a layer, in the order of `slots`.
    slot_names: ClassVar[tuple[str, ...]] = ()
    # Set by Adasum and LocalSteps: each replica has gradients of its own, and clips by their norm.
    replicas_differ: ClassVar[bool] = False

    @property
    def is_built(self) -> bool:
        """True once the variables, and so the state, are known."""
        return False

    def __setattr__(self, name: str, value: Any) -> None:
        # Keras checks the learning rate itself.
        each = self.hyperparameters.get(name)
        if each is not None and name != "learning_rate":
            label, value = type(self).__name__, each.check(type(self).__name__, name, value)
            if self.is_built and (changed := _of_state(name, each, getattr(self, name), value)):
                raise InputError(
                    f"{label}: {name} cannot be changed now: the state was made for {changed}. Give it to another "
                    f"{label}, or set it before the first step."
                )
        super().__setattr__(name, value)

    # ---- What a rule says ---------------------------------------------------------------------

    def update(self, gradient: Tensor, weight: Tensor, slots: Sequence[Tensor], layer: Layer, now: Now) -> Updated:
        """The step of one layer.

        Args:
          gradient: after reduction and clipping.
          weight: of the layer; all tensors are float32, or float64 for a variable of float64.
          slots: values of the layer's slots, zero at first.
          layer: `adapt` says whether layer adaptation applies.
          now: the scalars of the step; its weight decay is 0.0 where none applies.

        Returns:
          (The new weight, the new slots, the trust ratio: 1 where there is none.)
        """
        raise NotImplementedError(f"{type(self).__name__} has no update()")

    def views(self, paths: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> Sequence[View | None]:
        """The matrix view of each layer; None for those that `update` steps: here all."""
        del shapes
        return [None] * len(paths)

    def state_shapes(self, shape: tuple[int, ...], view: View | None) -> dict[str, tuple[int, ...]]:
        """Shapes of a layer's state variables by name, a selection of `slot_names` in its order."""
        del view
        return dict.fromkeys(self.slot_names, shape)

    def matrix_flops(self, view: View) -> float:
        """Floating-point operations of a layer's matrices in a step, beside those on its entries."""
        del view
        return 0.0

    def for_entries(self, layer: Layer, now: Now) -> tuple[Rule, Layer, Now]:
        """The rule for a layer without a view, and what to tell it: here the rule itself."""
        return self, layer, now

    def kernel(self) -> str | None:
        """The name of the step's in-place kernel in `tensorflow.KERNELS`, its twin on CPUs; None: it has none."""
        return None

    def check_gradient(self, layer: Layer, gradient: Any) -> None:
        """Raises ValueError for a variable that holds no floating-point numbers, or a gradient of another shape."""
        label, variable = type(self).__name__, layer.variable
        dtype = getattr(variable.dtype, "name", variable.dtype)
        if "float" not in dtype:
            raise ValueError(
                f"{label}: {layer.path!r} is of {dtype}, which a step would round to whole numbers. Make it with "
                "trainable=False, or leave it out of the gradients."
            )
        if getattr(gradient.shape, "rank", 0) is None:
            return
        shape, own = tuple(variable.shape), tuple(gradient.shape)
        if len(own) != len(shape) or any(size not in (None, expected) for size, expected in zip(own, shape)):
            raise ValueError(
                f"{label}: the gradient of {layer.path!r} is of shape {own}, the variable of {shape}. Give the "
                "gradient of each variable beside it, in the same order."
            )

    # ---- What all rules share -----------------------------------------------------------------

    def now(self, iterations: Tensor, learning_rate: Tensor, ema_momentum: Any) -> Now:
        """The scalars of the step after so many, at a learning rate, with a decay of the moving averages."""
        ops, weight_decay, every = of(iterations), self.weight_decay, self.ema_overwrite_frequency
        if callable(weight_decay):
            value = weight_decay(iterations) if declared.is_schedule(weight_decay) else weight_decay()
            weight_decay = ops.cast(value, "float32")
        overwrites = (iterations + 1) % every == 0 if self.use_ema and every else None
        return Now(
            number=ops.cast(iterations, "float32") + 1.0,
            learning_rate=ops.cast(learning_rate, "float32"),
            weight_decay=weight_decay,
            micro_batches=self.micro_batches(iterations),
            averaging=Averaging(ema_momentum, overwrites) if self.use_ema else None,
        )

    def micro_batches(self, iterations: Tensor) -> Any:
        """The micro-batches of the step after so many: a number, or a tensor where there is a schedule of them."""
        steps = self.accumulation_steps
        return steps(iterations) if callable(steps) else steps

    @property
    def accumulates(self) -> bool:
        """True if any step may be of several micro-batches."""
        return self.accumulation_steps != 1

    @property
    def scales_gradients(self) -> bool:
        """True if all gradients are multiplied by one factor."""
        return bool(self.global_clipnorm)

    def clip_factor(self, norm: Tensor) -> Tensor:
        """The factor of all gradients, by their global norm."""
        ops, limit = of(norm), self.global_clipnorm
        assert limit is not None
        # A gradient that is not finite makes all weights so, where it is noticed, rather than being scaled to zero.
        return limit / ops.maximum(norm, limit) + (norm - norm)

    def clipped(self, gradient: Tensor, factor: Tensor | None) -> Tensor:
        """A layer's gradient, multiplied by the factor and clipped by itself."""
        ops = of(gradient)
        if factor is not None:
            gradient = gradient * ops.cast(factor, gradient.dtype)
        if self.clipnorm:
            return ops.clip_by_norm(gradient, self.clipnorm)
        if self.clipvalue:
            return ops.clip(gradient, -self.clipvalue, self.clipvalue)
        return gradient

    def applies_to(self, path: str, may_decay: bool) -> tuple[bool, bool]:
        """(True if weight decay applies to a layer, True if layer adaptation does).

        Args:
          path: of the variable in its model.
          may_decay: False where Keras' own method excluded it from weight decay.
        """
        decay = may_decay and not exclusions.is_excluded(path, self.decay_exclusions)
        return decay, decay

    def warn_of_idle_patterns(self, paths: Sequence[str]) -> None:
        """Warns of each exclusion pattern that matches none of the paths of the variables."""
        for name, each in self.hyperparameters.items():
            if name.startswith("exclude_from"):
                exclusions.warn_of_idle(name, getattr(self, each.attribute), paths)


def _of_state(name: str, declaration: Hyperparameter, before: Any, after: Any) -> str:
    """What the state was made for, of a hyperparameter that would be changed; empty where it does not depend on it."""
    if isinstance(before, Group):
        parts = [
            _of_state(f"{name}.{field}", each, getattr(before, field), getattr(after, field))
            for field, each in before.hyperparameters.items()
        ]
        return " and ".join(part for part in parts if part)
    return f"{name}={before!r}" if declaration.of_state and before != after else ""


class AdaptedRule(Rule):
    """A rule with layer adaptation: a trust ratio, from which layers may be excluded."""

    adaptation_exclusions: Sequence[str] | str | None = hyper(
        declared.patterns,
        "as `exclude_from_weight_decay`; None means the same layers, [] none.",
        default=None,
        alias="exclude_from_layer_adaptation",
    )

    def applies_to(self, path: str, may_decay: bool) -> tuple[bool, bool]:
        decay, _ = super().applies_to(path, may_decay)
        adapted = self.adaptation_exclusions
        return decay, decay if adapted is None else not exclusions.is_excluded(path, adapted)


class MatrixRule(AdaptedRule):
    """A rule with a function of whole matrices that costs much: the replicas share it.

    A layer with a view takes its step in three parts: `before_transform` on every replica, `transform` of a batch of
    matrices of equal shape on one replica for all, `update_matrices` on every replica. The others take `update`.
    """

    def before_transform(
        self, gradient: Tensor, slots: Sequence[Tensor], view: View
    ) -> tuple[list[Tensor], list[Tensor]]:
        """(Batches [k, rows, columns] to transform, the new slots)."""
        raise NotImplementedError(f"{type(self).__name__} has no before_transform()")

    def transform(self, batch: Tensor) -> Tensor:
        """[k, rows, columns] to [k, rows, columns], each matrix by itself, without state."""
        raise NotImplementedError(f"{type(self).__name__} has no transform()")

    def transform_flops(self, rows: int, columns: int) -> float:
        """The floating-point operations of `transform` on one matrix."""
        raise NotImplementedError(f"{type(self).__name__} has no transform_flops()")

    def transform_every(self) -> int:
        """Steps from one `transform` to the next; 1: every step."""
        return 1

    def kept(self, slots: Sequence[Tensor], view: View) -> list[Tensor]:
        """The stand-in for the transformed batches in a step without `transform`."""
        raise NotImplementedError(f"{type(self).__name__} transforms at every step")

    def update_matrices(
        self,
        gradient: Tensor,
        weight: Tensor,
        slots: Sequence[Tensor],
        transformed: Sequence[Tensor],
        layer: Layer,
        now: Now,
    ) -> Updated:
        """`update` of a layer with a view, from the transformed batches."""
        raise NotImplementedError(f"{type(self).__name__} has no update_matrices()")


# ---- Parts of formulas --------------------------------------------------------------------------


def norm(tensor: Tensor) -> Tensor:
    """Euclidean norm of all entries, a scalar.

    The squares are summed in the tensor's own dtype: in float32 a norm above 1.8e19 is infinite,
    and entries below 1e-23 count as zero.
    """
    ops = of(tensor)
    return ops.sqrt(ops.sum(ops.square(tensor)))


def trust_ratio(
    numerator: Tensor,
    denominator: Tensor,
    weight_norm: Tensor,
    update_norm: Tensor,
    bounds: Bounds | None = None,
) -> Tensor:
    """`numerator / denominator`, or 1 where `weight_norm` or `update_norm` is zero.

    A layer that starts at zero (a bias, the last gamma of a residual block) would never move if
    its ratio were zero, and one with a zero update has no direction to scale: both are left to
    the plain learning rate.

    Args:
      bounds: None, or (low, high) for the ratio; either may be None.
    """
    ops = of(weight_norm)
    ratio = ops.divide_no_nan(numerator, denominator)
    low, high = bounds or (None, None)
    if low is not None:
        ratio = ops.maximum(ratio, low)
    if high is not None:
        ratio = ops.minimum(ratio, high)
    both = ops.logical_and(weight_norm > 0.0, update_norm > 0.0)
    return ops.where(both, ratio, ops.ones_like(ratio))


def lamb_ratio(weight: Tensor, update: Tensor, bounds: Bounds | None = None) -> Tensor:
    """LAMB's trust ratio |w| / |update|."""
    weight_norm, update_norm = norm(weight), norm(update)
    return trust_ratio(weight_norm, update_norm, weight_norm, update_norm, bounds)


def lars_ratio(
    weight_norm: Tensor,
    gradient_norm: Tensor,
    weight_decay: Tensor | float,
    eeta: float,
    epsilon: float,
    form: str,
) -> Tensor:
    """LARS's trust ratio; `gradient_norm` is |g| for the form 'paper', |g + wd w| for 'tfm'."""
    denominator = gradient_norm + epsilon
    if form == "paper":
        denominator += weight_decay * weight_norm
    return trust_ratio(eeta * weight_norm, denominator, weight_norm, gradient_norm)


def corrections(number: Tensor, beta_1: float, beta_2: float, bias_correction: bool = True) -> tuple[Tensor, Tensor]:
    """Divisors of Adam's two moments at a step (from 1): 1 - beta^step, or 1 without correction."""
    if not bias_correction:
        return of(number).ones_like(number), of(number).ones_like(number)
    return correction(number, beta_1), correction(number, beta_2)


def correction(number: Tensor, beta: float) -> Tensor:
    """1 - beta^step, the divisor of a moving average that began at zero; steps count from 1."""
    # By expm1: 1 - 0.999 is off by 1e-5 of itself in float32.
    ops = of(number)
    return -ops.expm1(number * math.log(beta)) if beta > 0.0 else ops.ones_like(number)
