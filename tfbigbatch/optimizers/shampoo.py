"""Shampoo: hyperparameters and the step of one layer; the same for Keras 2 and Keras 3.

For a matrix G the statistics are moving averages L of G G^T and R of G^T G, and the direction is L^(-1/4) G R^(-1/4).
A tensor has such a matrix for each axis, a vector has one. Blocks of a variable come as [k, ...], the statistics and
roots of an axis of n entries as [k, n, n], in float32 or float64. `blocks` cuts a variable, `matrix_roots` has the
roots.

Sources: Gupta et al. 2018, arXiv:1802.09568 (Algorithms 1 and 2); Anil et al. 2020, arXiv:2002.09018 (blocks, grafts,
moving averages, damping); grafting: Agarwal et al. 2020, arXiv:2002.11803. The grafts 'lars' and 'lamb' are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tfbigbatch.optimizers import blocks, declared, matrices, matrix_roots
from tfbigbatch.optimizers.blocks import BlockView
from tfbigbatch.optimizers.declared import Changing, Group, Grouped, group, hyper
from tfbigbatch.optimizers.lamb import Vectors
from tfbigbatch.optimizers.rule import (
    Layer,
    MatrixRule,
    Now,
    Rule,
    Tensor,
    Updated,
    correction,
    lamb_ratio,
    lars_ratio,
    norm,
    of,
)

# A root with an entry of its residual above this is not used: the published threshold.
_LARGEST_RESIDUAL = 0.1
# A variable with a longer side, such as a vocabulary's embedding, is not preconditioned unless a treatment asks for it:
# its blocks would cost much and cut across tokens. The published ResNet-50 has the same bound.
_LARGEST_SIDE = 8192


class Graft(Group):
    """The method that gives Shampoo's updates their length."""

    word = "method"

    method: str = hyper(
        declared.one_of("sgd", "rmsprop", "lars", "lamb"),
        "'sgd', 'rmsprop', 'lars' or 'lamb'",
        default="sgd",
        of_state=True,
    )
    eeta: float = hyper(declared.positive, "the trust coefficient of 'lars'", default=0.001)
    epsilon: float = hyper(
        declared.not_negative, "added to the root of the second moment of 'rmsprop' and 'lamb'", default=1e-8
    )
    steps: int = hyper(
        declared.whole,
        "so many at first are the graft's, while the statistics are gathered",
        default=5,
        of_state=True,
    )


class Root(Group):
    """Shampoo's inverse roots."""

    exponent: int = hyper(declared.count, "p of the inverse p-th roots, the paper's 2 x axes for matrices", default=4)
    epsilon: float = hyper(
        declared.positive, "the damping of the statistics, relative to their largest eigenvalue", default=1e-5
    )
    method: str | None = hyper(
        declared.optional(declared.one_of("newton", "eigh")),
        "'newton', 'eigh', or None: eigh on CPUs, Newton on accelerators and where TensorFlow compiles by XLA",
        default=None,
    )
    every: int = hyper(declared.count, "steps from one computation of the roots to the next", default=1)


class ShampooVectors(Vectors):
    """What Shampoo does with variables that it does not precondition, and with vectors."""

    step: str = hyper(
        declared.one_of("shampoo", "graft", "adam"), "'shampoo', 'graft' or 'adam'", default="shampoo", of_state=True
    )


class Shampoo(MatrixRule):
    """Shampoo, Gupta et al. 2018 (arXiv:1802.09568), in blocks and grafted as Anil et al. 2020 (arXiv:2002.09018).

    Each axis of a variable is preconditioned by an inverse root of the gradients' second moments along it; the update
    then has the norm of a simpler method's, the graft.

    Raises:
      ValueError: a hyperparameter is out of its range, a pattern does not compile, or, when the variables are known, a
        treatment does not fit a variable.
    """

    learning_rate: Changing = hyper(
        declared.changing,
        "float, Keras schedule, or callable without arguments; counts optimizer steps. Of the graft's kind: one that "
        "suits SGD with momentum, RMSProp, LARS or LAMB.",
        default=0.1,
        kw_only=False,
    )
    beta_1: float = hyper(declared.fraction, "decay of the momentum, which is Nesterov's, in [0, 1).", default=0.9)
    beta_2: float = hyper(
        declared.fraction, "decay of the statistics and of the graft's second moment, in [0, 1).", default=0.99
    )
    graft: Grouped[Graft] = group(
        Graft, "where each layer's update has its norm from (see `shampoo.Shampoo._momentum_step`)", default=Graft()
    )
    weight_decay: Changing = hyper(
        declared.decay,
        "added to the preconditioned update, before the momentum but with the graft 'lamb'; float, Keras schedule, or "
        "callable without arguments.",
        default=0.0,
    )
    block_size: int = hyper(
        declared.count, "the longest side of a block; see `optimizers.blocks`.", default=128, of_state=True
    )
    root: Grouped[Root] = group(Root, "of the inverse roots", default=Root())
    treatments: Any = hyper(
        matrices.check_treatments,
        "pairs (regular expression, treatment), searched in the variables' paths, or a dictionary: variables that are "
        "not read with small neighbouring axes merged, but as the matrices of a treatment in `optimizers.matrices`; "
        "'vector' for those that are not preconditioned. Nor is a variable with a side over 8,192, unless a pattern "
        "asks for it.",
        default=(),
        of_state=True,
    )
    vectors: Grouped[ShampooVectors] = group(
        ShampooVectors,
        "the step of biases and other variables of one axis; with 'adam' the other variables that are not "
        "preconditioned take Adam's step too, else the graft's",
        default=ShampooVectors(),
    )

    slot_names = (
        "momentum",
        "graft_momentum",
        "second_moment",
        *(f"statistics_{axis}" for axis in range(blocks.MOST_AXES)),
        *(f"roots_{axis}" for axis in range(blocks.MOST_AXES)),
    )

    def views(self, paths: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> list[BlockView | None]:
        views: list[BlockView | None] = []
        for path, shape, asked_for in zip(paths, shapes, matrices.views(paths, shapes, self.treatments)):
            treatment = matrices.treatment_for(path, self.treatments)
            longest = max(shape, default=1)
            is_vector = math.prod(shape) == longest
            if treatment and asked_for is not None:
                views.append(BlockView(shape, asked_for.matrix_shape[1:], self.block_size, asked_for))
            elif treatment == "vector" or longest > _LARGEST_SIDE or (is_vector and self.vectors.step != "shampoo"):
                views.append(None)
            else:
                views.append(BlockView(shape, blocks.merged_shape(shape, self.block_size), self.block_size))
        return views

    def state_shapes(self, shape: tuple[int, ...], view: BlockView | None) -> dict[str, tuple[int, ...]]:
        shapes = {"momentum": shape}
        if view is not None and self.graft.steps:
            shapes["graft_momentum"] = shape
        if self.graft.method in ("rmsprop", "lamb") or (view is None and self.vectors.step == "adam"):
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
            batch, self.root.exponent, epsilon=self.root.epsilon, method=self.root.method
        )
        is_root = residuals < _LARGEST_RESIDUAL
        ops = of(batch)
        return ops.where(is_root[:, None, None], roots, math.nan)

    def transform_flops(self, rows: int, columns: int) -> float:
        return matrix_roots.flops(rows, self.root.exponent)

    def matrix_flops(self, view: BlockView) -> float:
        return view.count * sum(self.transform_flops(side, side) for side in view.sides) / self.root.every

    def transform_every(self) -> int:
        return self.root.every

    def kept(self, slots: Sequence[Tensor], view: BlockView) -> list[Tensor]:
        state = self._by_name(slots, view)
        return [state[f"roots_{axis}"] for axis in range(len(view.sides))]

    def update_matrices(
        self,
        gradient: Tensor,
        weight: Tensor,
        slots: Sequence[Tensor],
        transformed: Sequence[Tensor],
        layer: Layer,
        now: Now,
    ) -> Updated:
        """L^(-1/p) G R^(-1/p) of each block at the norm of the graft's update, then `_momentum_step`."""
        ops, view, state = of(weight), layer.view, self._by_name(slots, layer.view)
        direction, letters = view.split(gradient), "abcdefgh"[: len(view.sides)]
        for axis, (letter, new) in enumerate(zip(letters, transformed)):
            # State begins at zero, roots at the identity.
            old = ops.where(now.number > 1.0, state[f"roots_{axis}"], ops.eye(view.sides[axis], dtype=new.dtype))
            root = state[f"roots_{axis}"] = ops.where(ops.isfinite(new[:, :1, :1]), new, old)
            direction = ops.einsum(f"kz{letter},k{letters}->k{letters.replace(letter, 'z')}", root, direction)
        direction = view.join(direction)
        graft = self._graft_update(gradient, state, now.number)
        update = direction * ops.divide_no_nan(norm(graft), norm(direction))
        new_weight, state["momentum"], ratio = self._momentum_step(update, weight, state["momentum"], layer, now)
        if "graft_momentum" in state:
            of_graft, state["graft_momentum"], its_ratio = self._momentum_step(
                graft, weight, state["graft_momentum"], layer, now
            )
            begins = now.number <= float(self.graft.steps)
            new_weight, ratio = ops.where(begins, of_graft, new_weight), ops.where(begins, its_ratio, ratio)
        return new_weight, list(state.values()), ratio

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
        if self.graft.method == "lamb":
            moment = moment / correction(step, self.beta_2)
        return ops.divide_no_nan(gradient, ops.sqrt(moment) + self.graft.epsilon)

    def _momentum_step(
        self, update: Tensor, weight: Tensor, momentum: Tensor, layer: Layer, now: Now
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(Weight, momentum, trust ratio) after decay, trust ratio and momentum, from an update U at the graft's norm.

        Grafts:
          sgd, rmsprop: M = beta_1 M + U + wd w; w -= lr M.
          lars: M = beta_1 M + r (U + wd w), r = eeta |w| / (|U| + wd |w|); w -= lr M. LARS's trust ratio.
          lamb: M = beta_1 M + (1 - beta_1) U; w -= lr r (M' + wd w), r = |w| / |M' + wd w|, M' = M / (1 - beta_1^step).
            LAMB's trust ratio.

        The momentum is Nesterov's: the step takes, in place of M, its next value for the same update.
        """
        ratio = of(weight).ones_like(now.number)
        if self.graft.method == "lamb":
            momentum = self.beta_1 * momentum + (1.0 - self.beta_1) * update
            ahead = self.beta_1 * momentum + (1.0 - self.beta_1) * update
            decayed = ahead / correction(now.number, self.beta_1) + now.weight_decay * weight
            if layer.adapt:
                ratio = lamb_ratio(weight, decayed)
            return weight - now.learning_rate * ratio * decayed, momentum, ratio

        if self.graft.method == "lars" and layer.adapt:
            ratio = lars_ratio(norm(weight), norm(update), now.weight_decay, self.graft.eeta, 0.0, form="paper")
        decayed = ratio * (update + now.weight_decay * weight)
        momentum = self.beta_1 * momentum + decayed
        return weight - now.learning_rate * (decayed + self.beta_1 * momentum), momentum, ratio

    # ---- The others -----------------------------------------------------------------------------

    def for_entries(self, layer: Layer, now: Now) -> tuple[Rule, Layer, Now]:
        """Adam's rule, which is LAMB's without layer adaptation, or the graft's own step: `update`."""
        return self.vectors.for_entries(layer, now) if self.vectors.step == "adam" else (self, layer, now)

    def update(self, gradient: Tensor, weight: Tensor, slots: Sequence[Tensor], layer: Layer, now: Now) -> Updated:
        """The graft's step, for what is not preconditioned."""
        state = self._by_name(slots, None)
        update = self._graft_update(gradient, state, now.number)
        weight, state["momentum"], ratio = self._momentum_step(update, weight, state["momentum"], layer, now)
        return weight, list(state.values()), ratio
