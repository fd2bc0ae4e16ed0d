"""Shampoo: hyperparameters, their checks, and the step of one layer; the same for Keras 2 and Keras 3."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from tfbigbatch.optimizers import blocks, matrices, matrix_roots, preconditioning, rules
from tfbigbatch.optimizers.arguments import TABLES, LayerwiseArguments
from tfbigbatch.optimizers.base import MatrixRule
from tfbigbatch.optimizers.blocks import BlockView
from tfbigbatch.optimizers.ops import Tensor, of
from tfbigbatch.optimizers.options import with_rule, with_shared_arguments

if TYPE_CHECKING:
    import tensorflow as tf

# A root with an entry of its residual above this is not used: the published threshold.
_LARGEST_RESIDUAL = 0.1
DOCSTRING = with_shared_arguments(
    """Shampoo, Gupta et al. 2018 (arXiv:1802.09568), in blocks and grafted as Anil et al. 2020 (arXiv:2002.09018).

    Each axis of a variable is preconditioned by an inverse root of the gradients' second moments along it; the update
    then has the norm of a simpler method's, the graft. `optimizers.preconditioning` has the formulas.

    Args:
      learning_rate: float, Keras schedule, or callable without arguments; counts optimizer steps. Of the graft's kind:
        one that suits SGD with momentum, RMSProp, LARS or LAMB.
      beta_1: decay of the momentum, in [0, 1).
      beta_2: decay of the statistics and of the graft's second moment, in [0, 1).
      nesterov: Nesterov momentum.
      graft: 'sgd', 'rmsprop', 'lars' or 'lamb': where each layer's update has its norm from; see
        `preconditioning.momentum_step`.
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
class Shampoo(MatrixRule):
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
        state = self._by_name(slots, view)
        names = [f"statistics_{axis}" for axis in range(len(view.sides))]
        statistics = preconditioning.update_statistics(
            [state[name] for name in names], view.split(gradient), beta_2=self.beta_2
        )
        state.update(zip(names, statistics))
        return statistics, list(state.values())

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
        ops, state = of(weight), self._by_name(slots, view)
        for axis, new in enumerate(transformed):
            # State begins at zero, roots at the identity.
            old = ops.where(step > 1.0, state[f"roots_{axis}"], ops.identity(view.sides[axis], new.dtype))
            state[f"roots_{axis}"] = ops.where(ops.is_finite(new[:, :1, :1]), new, old)
        roots = [state[f"roots_{axis}"] for axis in range(len(view.sides))]
        direction = view.join(preconditioning.precondition(view.split(gradient), roots))
        graft = self._graft_update(gradient, state, step)
        update = preconditioning.graft_norm(direction, graft)
        new_weight, state["momentum"], ratio = self._momentum_step(update, weight, state["momentum"], step, options)
        if "graft_momentum" in state:
            of_graft, state["graft_momentum"], its_ratio = self._momentum_step(
                graft, weight, state["graft_momentum"], step, options
            )
            begins = step <= float(self.graft_steps)
            new_weight, ratio = ops.where(begins, of_graft, new_weight), ops.where(begins, its_ratio, ratio)
        return new_weight, *state.values(), ratio

    def _graft_update(self, gradient: Tensor, state: dict[str, Tensor], step: Tensor) -> Tensor:
        update, second_moment = preconditioning.graft_update(
            self.graft, gradient, state.get("second_moment"), step=step, beta_2=self.beta_2, epsilon=self.epsilon
        )
        if second_moment is not None:
            state["second_moment"] = second_moment
        return update

    def _momentum_step(
        self, update: Tensor, weight: Tensor, momentum: Tensor, step: Tensor, options: dict[str, Any]
    ) -> tuple[Tensor, Tensor, Tensor]:
        return preconditioning.momentum_step(
            self.graft,
            update,
            weight,
            momentum,
            step=step,
            beta_1=self.beta_1,
            nesterov=self.nesterov,
            eeta=self.eeta,
            **options,
        )

    # ---- The others -----------------------------------------------------------------------------

    def apply(
        self, gradient: Tensor, weight: Tensor, slots: Sequence[Tensor], *, step: Tensor, **options: Any
    ) -> tuple[Tensor, ...]:
        if self.vectors == "adam":
            m, v = slots
            return rules.lamb(gradient, weight, m, v, step=step, **self._moments(), **self._of_adam(options))
        state = self._by_name(slots, None)
        update = self._graft_update(gradient, state, step)
        weight, state["momentum"], ratio = self._momentum_step(update, weight, state["momentum"], step, options)
        return weight, *state.values(), ratio

    def has_kernels(self) -> bool:
        # Adam's kernel has no guard for 0 / 0.
        return self.vectors == "adam" and self.epsilon > 0.0

    def kernel_scalars(self, step: Tensor) -> Any:
        if not self.has_kernels():
            return None
        from tfbigbatch.optimizers import cpu_kernels  # Needs TensorFlow, which Shampoo on another backend does not.

        return cpu_kernels.adam_scalars(step, **self._moments())

    def apply_in_place(
        self, gradient: Tensor, weight: tf.Variable, slots: Sequence[tf.Variable], **options: Any
    ) -> tuple[tf.Operation, tuple[Any, Any, Any] | None]:
        from tfbigbatch.optimizers import cpu_kernels

        m, v = slots
        return cpu_kernels.lamb(gradient, weight, m, v, **self._of_adam(options))

    def _of_adam(self, options: dict[str, Any]) -> dict[str, Any]:
        # Adam's step is LAMB's without layer adaptation.
        learning_rate = self.vector_learning_rate_ratio * options["learning_rate"]
        return {**options, "learning_rate": learning_rate, "adapt": False}

    def _moments(self) -> dict[str, Any]:
        return {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon, "bias_correction": True}

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
