"""Muon, whose update of a matrix is its orthogonalised momentum.

Sources: Jordan et al. 2024 (kellerjordan.github.io/posts/muon); the scale for Adam's learning rates: Liu et al. 2025,
arXiv:2502.16982 (Moonlight), eq. 4; NorMuon: Li et al. 2025, arXiv:2510.05491, Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tfbigbatch.optimizers import declared, matrices, orthogonalization
from tfbigbatch.optimizers.declared import Changing, Group, Grouped, group, hyper
from tfbigbatch.optimizers.lamb import Vectors
from tfbigbatch.optimizers.matrices import MatrixView
from tfbigbatch.optimizers.rule import Layer, MatrixRule, Now, Rule, Tensor, Updated, lamb_ratio, of


class NewtonSchulz(Group):
    """Muon's Newton-Schulz iteration."""

    steps: int = hyper(declared.count, "their number", default=5)
    coefficients: str = hyper(
        declared.one_of("quintic", "polar_express"),
        "'quintic', Muon's, or 'polar_express' (arXiv:2505.16932), which ends nearer to the polar factor",
        default="quintic",
    )
    product_dtype: str = hyper(
        declared.one_of("float32", "bfloat16"),
        "'bfloat16' for the products of matrices with one side up to about four times the other",
        default="float32",
    )


class Muon(MatrixRule):
    """Muon: orthogonalised momentum, Jordan et al. 2024, for all matrices of a model.

    The momentum of each matrix, convolutions included, is replaced by its polar factor, in which all
    directions have the same length; `optimizers.orthogonalization` has the formulas. Vectors, embeddings and
    output layers of a vocabulary take Adam's or LAMB's step; `optimizers.matrices` says what is a matrix.

    Raises:
      ValueError: a hyperparameter is out of its range, a pattern does not compile, or, when the variables are
        known, a treatment does not fit a variable.
    """

    learning_rate: Changing = hyper(
        declared.changing,
        "float, Keras schedule, or callable without arguments; counts optimizer steps. With scale='rms' one that suits "
        "AdamW is a good start.",
        default=0.02,
        kw_only=False,
    )
    momentum: float = hyper(declared.fraction, "decay of the momentum, in [0, 1).", default=0.95)
    nesterov: bool = hyper(declared.flag, "Nesterov momentum.", default=True)
    newton_schulz: Grouped[NewtonSchulz] = group(NewtonSchulz, "of the Newton-Schulz steps", default=NewtonSchulz())
    scale: str = hyper(
        declared.one_of("rms", "spectral", "trust_ratio"),
        "of the orthogonalised matrix [in, out]: 'rms', 0.2 sqrt(max(in, out)), as long as Adam's update "
        "(arXiv:2502.16982); 'spectral', sqrt(out / in); 'trust_ratio', LAMB's: the norm of the layer's weights over "
        "that of its update.",
        default="rms",
    )
    normuon_beta: float | None = hyper(
        declared.optional(declared.fraction),
        "None; or the decay of a second moment for each output, by which the orthogonalised matrix is divided "
        "(NorMuon, arXiv:2510.05491, with 0.95).",
        default=None,
        of_state=True,
    )
    treatments: Any = hyper(
        matrices.check_treatments,
        "pairs (regular expression, treatment), searched in the variables' paths, or a dictionary: what differs from "
        "the defaults. Treatments: 'matrix', 'vector', 'gates', 'heads', 'groups:N', 'in:AXES out:AXES'. A pattern "
        "that matches nothing warns when the variables are known, and so does a kernel of several axes that is read as "
        "a matrix with one side over 32 times the other. `optimizers.einsum_treatments(model)` gives those of "
        "EinsumDense layers.",
        default=(),
        of_state=True,
    )
    vectors: Grouped[Vectors] = group(Vectors, "the step of all other variables", default=Vectors())
    weight_decay: Changing = hyper(
        declared.decay,
        "added to the update, w -= lr (update + decay w), as AdamW's; float, Keras schedule, or callable without "
        "arguments.",
        default=0.0,
    )
    slot_names = ("momentum", "second_moment", "m", "v")

    def views(self, paths: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> list[MatrixView | None]:
        found = matrices.views(paths, shapes, self.treatments)
        matrices.warn_of_long(paths, shapes, self.treatments)
        return found

    def state_shapes(self, shape: tuple[int, ...], view: MatrixView | None) -> dict[str, tuple[int, ...]]:
        if view is None:
            return {"m": shape, "v": shape}
        if self.normuon_beta is None:
            return {"momentum": shape}
        blocks, _, columns = view.matrix_shape
        return {"momentum": shape, "second_moment": (blocks, columns)}

    def before_transform(
        self, gradient: Tensor, slots: Sequence[Tensor], view: MatrixView
    ) -> tuple[list[Tensor], list[Tensor]]:
        """M <- mu M + G; G + mu M is orthogonalised with Nesterov momentum, else M: of any scale."""
        momentum = self.momentum * slots[0] + gradient
        direction = gradient + self.momentum * momentum if self.nesterov else momentum
        return [view.to_matrices(direction)], [momentum, *slots[1:]]

    def transform(self, batch: Tensor) -> Tensor:
        steps = orthogonalization.coefficients(self.newton_schulz.coefficients, self.newton_schulz.steps)
        # BERT-base has 73 matrices of three shapes.
        return of(batch).apart(orthogonalization.newton_schulz, batch, steps, self.newton_schulz.product_dtype)

    def transform_flops(self, rows: int, columns: int) -> float:
        return orthogonalization.flops(rows, columns, self.newton_schulz.steps, self.newton_schulz.product_dtype)

    def matrix_flops(self, view: MatrixView) -> float:
        blocks, rows, columns = view.matrix_shape
        return blocks * self.transform_flops(rows, columns)

    def update_matrices(
        self,
        gradient: Tensor,
        weight: Tensor,
        slots: Sequence[Tensor],
        transformed: Sequence[Tensor],
        layer: Layer,
        now: Now,
    ) -> Updated:
        """w <- w - lr (factor O + wd w) with the orthogonalised momentum O; for 'trust_ratio' LAMB's ratio on top."""
        del gradient
        [orthogonal], new_slots = transformed, list(slots)
        if self.normuon_beta is not None:
            orthogonal, new_slots[1] = _normalized_outputs(orthogonal, slots[1], self.normuon_beta)
        update = self._factor(layer.view) * layer.view.from_matrices(orthogonal) + now.weight_decay * weight
        ratio = of(weight).ones_like(now.number)
        if self.scale == "trust_ratio" and layer.adapt:
            ratio = lamb_ratio(weight, update)
        return weight - now.learning_rate * ratio * update, new_slots, ratio

    def _factor(self, view: MatrixView) -> float:
        """The factor of an orthogonalised matrix [rows, columns] by the scale; a trust ratio comes on top."""
        _, rows, columns = view.matrix_shape
        if self.scale == "rms":
            return 0.2 * math.sqrt(max(rows, columns))
        return math.sqrt(columns / rows) if self.scale == "spectral" else 1.0

    def for_entries(self, layer: Layer, now: Now) -> tuple[Rule, Layer, Now]:
        return self.vectors.for_entries(layer, now)


def _normalized_outputs(matrices: Tensor, second_moment: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """NorMuon: each output's column over the root of its second moment; the Frobenius norm stays that of before.

    The paper sets the root mean square of the update to 0.2, which is the same for singular values of 1 and the scale
    'rms'; with the norm kept, as in microsoft/dion, every scale can follow.

    Returns:
      (Matrices [k, rows, columns], moving averages of the columns' mean squares [k, columns]) after the step.
    """
    ops = of(matrices)
    second_moment = beta * second_moment + (1.0 - beta) * ops.mean(ops.square(matrices), axis=1)
    divided = matrices / (ops.sqrt(second_moment)[:, None] + 1e-8)
    before, after = (ops.norm(each, axis=(1, 2), keepdims=True) for each in (matrices, divided))
    return divided * ops.divide_no_nan(before, after), second_moment
