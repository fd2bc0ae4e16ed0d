"""Shampoo: hyperparameters and the step of one layer; the same for Keras 2 and Keras 3.

For a matrix G the statistics are moving averages L of G G^T and R of G^T G, and the direction is L^(-1/4) G R^(-1/4).
A tensor has such a matrix for each axis, a vector has one. Blocks of a variable come as [k, ...], the statistics and
roots of an axis of n entries as [k, n, n], in float32 or float64. `blocks` cuts a variable, `matrix_roots` has the
roots.

Sources: Gupta et al. 2018, arXiv:1802.09568 (Algorithms 1 and 2); Anil et al. 2020, arXiv:2002.09018 (blocks, grafts,
moving averages, damping); grafting: Agarwal et al. 2020, arXiv:2002.11803. The grafts 'lars' and 'lamb' are ours.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from tfbigbatch.optimizers import blocks, matrices, matrix_roots, rules
from tfbigbatch.optimizers.arguments import TABLES, LayerwiseArguments
from tfbigbatch.optimizers.base import MatrixRule
from tfbigbatch.optimizers.blocks import BlockView
from tfbigbatch.optimizers.lamb import LambOfVectors
from tfbigbatch.optimizers.ops import Tensor, of
from tfbigbatch.optimizers.options import with_rule, with_shared_arguments

if TYPE_CHECKING:
    pass

# A root with an entry of its residual above this is not used: the published threshold.
_LARGEST_RESIDUAL = 0.1
DOCSTRING = with_shared_arguments(
    """Shampoo, Gupta et al. 2018 (arXiv:1802.09568), in blocks and grafted as Anil et al. 2020 (arXiv:2002.09018).

    Each axis of a variable is preconditioned by an inverse root of the gradients' second moments along it; the update
    then has the norm of a simpler method's, the graft.

    Args:
      learning_rate: float, Keras schedule, or callable without arguments; counts optimizer steps. Of the graft's kind:
        one that suits SGD with momentum, RMSProp, LARS or LAMB.
      beta_1: decay of the momentum, in [0, 1).
      beta_2: decay of the statistics and of the graft's second moment, in [0, 1).
      nesterov: Nesterov momentum.
      graft: 'sgd', 'rmsprop', 'lars' or 'lamb': where each layer's update has its norm from; see
        `shampoo.Shampoo._momentum_step`.
      eeta: the trust coefficient of the graft 'lars'.
      epsilon: added to the root of the second moment of the grafts 'rmsprop' and 'lamb'.
      weight_decay: added to the preconditioned update, before the momentum but with the graft 'lamb'; float, Keras
        schedule, or callable without arguments.
      block_size: the longest side of a block; see `optimizers.blocks`.
      largest_side: variables with a longer side are not preconditioned; None: all are.
      exponent: p of the inverse p-th roots. 4 is the paper's 2 x axes for matrices.
      matrix_epsilon: the damping of the statistics, relative to their largest eigenvalue.
      root_method: 'newton', 'eigh', or None: eigh on CPUs, Newton on accelerators and where TensorFlow compiles by XLA.
      root_every: steps from one computation of the roots to the next.
      graft_steps: so many steps at first are the graft's, while the statistics are gathered.
      matrices: pairs (regular expression, treatment), searched in the variables' paths, or a dictionary: variables that
        are not read with small neighbouring axes merged, but as the matrices of a treatment in `optimizers.matrices`;
        'vector' for those that are not preconditioned.
      vectors: the step of biases and other variables of one axis: 'shampoo', 'graft' or 'adam'. With 'adam' the other
        variables that are not preconditioned take Adam's step too; else the graft's.
      vector_learning_rate_ratio: Adam's learning rate over `learning_rate`.
      share_work: compute each root on one replica, and send it to the others. None: where it pays.
      {shared}

    Raises:
      ValueError: a hyperparameter is out of its range, a pattern does not compile, or, when the variables are known, a
        treatment does not fit a variable.
    """
)


@dataclasses.dataclass
class Shampoo(LambOfVectors, MatrixRule):
    """The rule of `tfbigbatch.Shampoo`; `DOCSTRING` explains the hyperparameters."""

    arguments = TABLES["shampoo"]
    slot_names = (
        "momentum",
        "graft_momentum",
        "second_moment",
        *(f"statistics_{axis}" for axis in range(blocks.MOST_AXES)),
        *(f"roots_{axis}" for axis in range(blocks.MOST_AXES)),
    )
    of_state = frozenset({"matrices", "vectors", "graft", "graft_steps", "block_size", "largest_side"})

    beta_1: float
    beta_2: float
    nesterov: bool
    graft: str
    eeta: float
    epsilon: float
    block_size: int
    largest_side: int | None
    exponent: int
    matrix_epsilon: float
    root_method: str | None
    root_every: int
    graft_steps: int
    matrices: matrices.Treatments
    vectors: str
    vector_learning_rate_ratio: float
    share_work: bool | None

    def views(self, paths: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> list[BlockView | None]:
        matrices.warn_of_idle(self.matrices, paths, shapes)
        views: list[BlockView | None] = []
        for path, shape, asked_for in zip(paths, shapes, matrices.views(paths, shapes, self.matrices)):
            treatment = matrices.treatment_for(path, self.matrices)
            longest = max(shape, default=1)
            is_vector = math.prod(shape) == longest
            if treatment == "vector" or (self.largest_side is not None and longest > self.largest_side):
                views.append(None)
            elif treatment and asked_for is not None:
                views.append(BlockView.of_matrices(asked_for, self.block_size))
            elif is_vector and self.vectors != "shampoo":
                views.append(None)
            else:
                views.append(BlockView.merged(tuple(shape), self.block_size))
        return views

    def state_shapes(self, shape: tuple[int, ...], view: BlockView | None) -> dict[str, tuple[int, ...]]:
        shapes = {"momentum": shape}
        if view is not None and self.graft_steps:
            shapes["graft_momentum"] = shape
        if self.graft in ("rmsprop", "lamb") or (view is None and self.vectors == "adam"):
            shapes["second_moment"] = shape
        if view is not None:
            for name in ("statistics", "roots"):
                shapes.update({f"{name}_{axis}": (view.count, side, side) for axis, side in enumerate(view.sides)})
        return shapes

    def _by_name(self, slots: Sequence[Tensor], view: BlockView | None) -> dict[str, Tensor]:
        return dict(zip(self.state_shapes((), view), slots))

    # ---- Preconditioned -------------------------------------------------------------------------

    def before_transform(
        self, gradient: Tensor, slots: Sequence[Tensor], view: BlockView
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Statistics S of each axis of n entries: S <- beta_2 S + (1 - beta_2) A A^T, A = [n, the other axes]."""
        state, blocks = self._by_name(slots, view), view.split(gradient)
        letters = "abcdefgh"[: len(view.sides)]
        for axis, letter in enumerate(letters):
            product = f"k{letters},k{letters.replace(letter, 'z')}->k{letter}z"
            product = of(blocks).einsum(product, blocks, blocks)
            state[f"statistics_{axis}"] = self.beta_2 * state[f"statistics_{axis}"] + (1.0 - self.beta_2) * product
        return [state[f"statistics_{axis}"] for axis in range(len(letters))], list(state.values())

    def transform(self, batch: Tensor) -> Tensor:
        """The inverse roots of statistics; NaN where the root is none, so that the last one stays."""
        roots, residuals = matrix_roots.inverse_roots(
            batch, self.exponent, epsilon=self.matrix_epsilon, method=self.root_method
        )
        is_root = residuals < _LARGEST_RESIDUAL
        ops = of(batch)
        return ops.where(is_root[:, None, None], roots, ops.constant(float("nan"), batch.dtype))

    def transform_flops(self, rows: int, columns: int) -> float:
        return matrix_roots.flops(rows, self.exponent)

    def matrix_flops(self, view: BlockView) -> float:
        return view.count * sum(self.transform_flops(side, side) for side in view.sides) / self.root_every

    def transform_every(self) -> int:
        return self.root_every

    def kept(self, slots: Sequence[Tensor], view: BlockView) -> list[Tensor]:
        state = self._by_name(slots, view)
        return [state[f"roots_{axis}"] for axis in range(len(view.sides))]

    def apply_transformed(
        self,
        gradient: Tensor,
        weight: Tensor,
        slots: Sequence[Tensor],
        transformed: Sequence[Tensor],
        view: BlockView,
        *,
        step: Tensor,
        **options: Any,
    ) -> tuple[Tensor, ...]:
        """L^(-1/p) G R^(-1/p) of each block at the norm of the graft's update, then `_momentum_step`."""
        ops, state = of(weight), self._by_name(slots, view)
        direction, letters = view.split(gradient), "abcdefgh"[: len(view.sides)]
        for axis, (letter, new) in enumerate(zip(letters, transformed)):
            # State begins at zero, roots at the identity.
            old = ops.where(step > 1.0, state[f"roots_{axis}"], ops.identity(view.sides[axis], new.dtype))
            root = state[f"roots_{axis}"] = ops.where(ops.is_finite(new[:, :1, :1]), new, old)
            direction = ops.einsum(f"kz{letter},k{letters}->k{letters.replace(letter, 'z')}", root, direction)
        direction = view.join(direction)
        graft = self._graft_update(gradient, state, step)
        update = direction * ops.divide_no_nan(rules.norm(graft), rules.norm(direction))
        options["step"] = step
        new_weight, state["momentum"], ratio = self._momentum_step(update, weight, state["momentum"], **options)
        if "graft_momentum" in state:
            of_graft, state["graft_momentum"], its_ratio = self._momentum_step(
                graft, weight, state["graft_momentum"], **options
            )
            begins = step <= float(self.graft_steps)
            new_weight, ratio = ops.where(begins, of_graft, new_weight), ops.where(begins, its_ratio, ratio)
        return new_weight, *state.values(), ratio

    def _graft_update(self, gradient: Tensor, state: dict[str, Tensor], step: Tensor) -> Tensor:
        """The update of the method that Shampoo is grafted to, before momentum and decay; updates its second moment.

        Grafts:
          sgd, lars: the gradient.
          rmsprop: g / (sqrt(v) + epsilon), v being the moving average of g^2.
          lamb: the same, with v / (1 - beta_2^step), as Adam's.
        """
        if "second_moment" not in state:
            return gradient
        ops = of(gradient)
        moment = self.beta_2 * state["second_moment"] + (1.0 - self.beta_2) * ops.square(gradient)
        state["second_moment"] = moment
        if self.graft == "lamb":
            moment = moment / rules.moment_correction(step, self.beta_2)
        return ops.divide_no_nan(gradient, ops.sqrt(moment) + self.epsilon)

    def _momentum_step(
        self,
        update: Tensor,
        weight: Tensor,
        momentum: Tensor,
        *,
        step: Tensor,
        learning_rate: Tensor,
        weight_decay: Tensor | float,
        adapt: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(Weight, momentum, trust ratio) after decay, trust ratio and momentum, from an update U at the graft's norm.

        Grafts:
          sgd, rmsprop: M = beta_1 M + U + wd w; w -= lr M.
          lars: M = beta_1 M + r (U + wd w), r = eeta |w| / (|U| + wd |w|); w -= lr M. LARS's trust ratio.
          lamb: M = beta_1 M + (1 - beta_1) U; w -= lr r (M' + wd w), r = |w| / |M' + wd w|, M' = M / (1 - beta_1^step).
            LAMB's trust ratio.

        With Nesterov momentum the step takes, in place of M, its next value for the same update.
        """
        ratio = of(weight).ones([], weight.dtype)
        if self.graft == "lamb":
            momentum = self.beta_1 * momentum + (1.0 - self.beta_1) * update
            ahead = self.beta_1 * momentum + (1.0 - self.beta_1) * update if self.nesterov else momentum
            corrected = ahead / rules.moment_correction(step, self.beta_1)
            decayed = corrected + weight_decay * weight
            if adapt:
                weight_norm, update_norm = rules.norm(weight), rules.norm(decayed)
                ratio = rules.trust_ratio(weight_norm, update_norm, weight_norm, update_norm)
            return weight - learning_rate * ratio * decayed, momentum, ratio

        if self.graft == "lars" and adapt:
            weight_norm, update_norm = rules.norm(weight), rules.norm(update)
            ratio = rules.lars_ratio(weight_norm, update_norm, weight_decay, self.eeta, 0.0, form="paper")
        decayed = ratio * (update + weight_decay * weight)
        momentum = self.beta_1 * momentum + decayed
        ahead = decayed + self.beta_1 * momentum if self.nesterov else momentum
        return weight - learning_rate * ahead, momentum, ratio

    # ---- The others -----------------------------------------------------------------------------

    def apply(self, gradient: Tensor, weight: Tensor, slots: Sequence[Tensor], **options: Any) -> tuple[Tensor, ...]:
        if self.vectors == "adam":
            return super().apply(gradient, weight, slots, **options)
        state = self._by_name(slots, None)
        update = self._graft_update(gradient, state, options["step"])
        weight, state["momentum"], ratio = self._momentum_step(update, weight, state["momentum"], **options)
        return weight, *state.values(), ratio

    def has_kernels(self) -> bool:
        return self.vectors == "adam" and super().has_kernels()

    def kernel_scalars(self, step: Tensor) -> Any:
        return super().kernel_scalars(step) if self.has_kernels() else None

    def config(self) -> dict[str, Any]:
        return {**super().config(), "matrices": [list(pair) for pair in self.matrices]}


@with_rule(Shampoo)
class Optimizer:
    """The constructor of `tfbigbatch.Shampoo` in both Kerases; `DOCSTRING` explains it."""

    def __init__(
        self,
        learning_rate: Any = 0.1,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        nesterov: bool = True,
        graft: str = "sgd",
        eeta: float = 0.001,
        epsilon: float = 1e-8,
        weight_decay: Any = 0.0,
        block_size: int = 128,
        largest_side: int | None = 8192,
        exponent: int = 4,
        matrix_epsilon: float = 1e-5,
        root_method: str | None = None,
        root_every: int = 1,
        graft_steps: int = 5,
        matrices: Any = (),
        vectors: str = "shampoo",
        vector_learning_rate_ratio: float = 1.0,
        share_work: bool | None = None,
        name: str = "Shampoo",
        **kwargs: Unpack[LayerwiseArguments],
    ) -> None: ...
