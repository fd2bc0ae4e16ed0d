"""Muon, whose update of a matrix is its orthogonalised momentum."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfbigbatch.optimizers import declared, matrices, orthogonalization
from tfbigbatch.optimizers.declared import Changing, hyper
from tfbigbatch.optimizers.lamb import LAMB
from tfbigbatch.optimizers.matrices import MatrixView
from tfbigbatch.optimizers.rule import Layer, MatrixRule, Now, Rule, Tensor, Updated, lamb_ratio, of


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
    newton_schulz_steps: int = hyper(declared.count, "number of Newton-Schulz steps.", default=5)
    coefficients: str = hyper(declared.one_of("quintic", "polar_express"), "of these steps.", default="quintic")
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
    matrices: matrices.Treatments = hyper(matrices.check_treatments, "pairs.", default=(), of_state=True)
    vectors: str = hyper(declared.one_of("adam", "lamb"), "'adam' or 'lamb': the step of all other variables.", default="adam")
    vector_learning_rate_ratio: float = hyper(declared.positive, "their learning rate over `learning_rate`.", default=1.0)
    beta_1: float = hyper(declared.fraction, "of Adam's or LAMB's first moment.", default=0.9)
    beta_2: float = hyper(declared.fraction, "of the second.", default=0.99)
    epsilon: float = hyper(declared.not_negative, "of these.", default=1e-8)
    weight_decay: Changing = hyper(
        declared.decay,
        "added to the update, w -= lr (update + decay w), as AdamW's; float, Keras schedule, or callable without "
        "arguments.",
        default=0.0,
    )
    product_dtype: str = hyper(
        declared.one_of("float32", "bfloat16"),
        "'float32', or 'bfloat16' for the products of the Newton-Schulz steps of matrices with one side up to about "
        "four times the other.",
        default="float32",
    )
    share_work: bool | None = hyper(declared.optional(declared.flag), "where it pays.", default=None)

    slot_names = ("momentum", "second_moment", "m", "v")

    def views(self, paths: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> list[MatrixView | None]:
        matrices.warn_of_idle(self.matrices, paths, shapes)
        matrices.warn_of_long(paths, shapes, self.matrices)
        return matrices.views(paths, shapes, self.matrices)

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
        direction, velocity = orthogonalization.momentum_update(
            gradient, slots[0], momentum=self.momentum, nesterov=self.nesterov
        )
        return [view.to_matrices(direction)], [velocity, *slots[1:]]

    def transform(self, batch: Tensor) -> Tensor:
        steps = orthogonalization.coefficients(self.coefficients, self.newton_schulz_steps)
        # BERT-base has 73 matrices of three shapes.
        newton_schulz = of(batch).traced_by_shape(orthogonalization.newton_schulz)
        return newton_schulz(batch, steps, self.product_dtype)

    def transform_flops(self, rows: int, columns: int) -> float:
        return orthogonalization.flops(rows, columns, self.newton_schulz_steps, self.product_dtype)

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
            orthogonal, new_slots[1] = orthogonalization.normalize_outputs(orthogonal, slots[1], beta=self.normuon_beta)
        factor = orthogonalization.update_scale(self.scale, *layer.view.matrix_shape[1:])
        update = factor * layer.view.from_matrices(orthogonal) + now.weight_decay * weight
        ratio = of(weight).ones_like(now.number)
        if self.scale == "trust_ratio" and layer.adapt:
            ratio = lamb_ratio(weight, update)
        return weight - now.learning_rate * ratio * update, new_slots, ratio

    def for_entries(self, layer: Layer, now: Now) -> tuple[Rule, Layer, Now]:
        """LAMB's rule, or Adam's, which is LAMB's without layer adaptation."""
        rule = LAMB(beta_1=self.beta_1, beta_2=self.beta_2, epsilon=self.epsilon)
        adapt = layer.adapt and self.vectors == "lamb"
        learning_rate = self.vector_learning_rate_ratio * now.learning_rate
        return rule, dataclasses.replace(layer, adapt=adapt), now._replace(learning_rate=learning_rate)
