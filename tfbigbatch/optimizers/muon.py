"""Muon: hyperparameters, their checks, and the step of one layer; the same for Keras 2 and Keras 3."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from tfbigbatch.optimizers import matrices, orthogonalization, rules
from tfbigbatch.optimizers.arguments import TABLES, LayerwiseArguments
from tfbigbatch.optimizers.base import MatrixRule
from tfbigbatch.optimizers.lamb import LambOfVectors
from tfbigbatch.optimizers.matrices import MatrixView
from tfbigbatch.optimizers.ops import Tensor, of
from tfbigbatch.optimizers.options import with_rule, with_shared_arguments

if TYPE_CHECKING:
    pass

DOCSTRING = with_shared_arguments(
    """Muon: orthogonalised momentum, Jordan et al. 2024, for all matrices of a model.

    The momentum of each matrix, convolutions included, is replaced by its polar factor, in which all
    directions have the same length; `optimizers.orthogonalization` has the formulas. Vectors, embeddings and
    output layers of a vocabulary take Adam's or LAMB's step; `optimizers.matrices` says what is a matrix.

    Args:
      learning_rate: float, Keras schedule, or callable without arguments; counts optimizer steps. With
        scale='rms' one that suits AdamW is a good start.
      momentum: decay of the momentum, in [0, 1).
      nesterov: Nesterov momentum.
      newton_schulz_steps: number of Newton-Schulz steps.
      coefficients: of these steps: 'quintic' (Muon's), or 'polar_express' (arXiv:2505.16932), which ends nearer to
        the polar factor.
      scale: of the orthogonalised matrix [in, out]: 'rms', 0.2 sqrt(max(in, out)), as long as Adam's update
        (arXiv:2502.16982); 'spectral', sqrt(out / in); 'trust_ratio', LAMB's: the norm of the layer's weights
        over that of its update.
      normuon_beta: None; or the decay of a second moment for each output, by which the orthogonalised matrix
        is divided (NorMuon, arXiv:2510.05491, with 0.95).
      matrices: pairs (regular expression, treatment), searched in the variables' paths, or a dictionary: what
        differs from the defaults. Treatments: 'matrix', 'vector', 'gates', 'heads', 'depthwise', 'groups:N',
        'rows:N', 'in:AXES out:AXES'. A pattern that matches nothing warns when the variables are known, and so does a
        kernel of several axes that is read as a matrix with one side over 32 times the other.
        `optimizers.einsum_treatments(model)` gives those of EinsumDense layers.
      vectors: 'adam' or 'lamb': the step of all other variables.
      vector_learning_rate_ratio: their learning rate over `learning_rate`.
      beta_1, beta_2, epsilon: of Adam's or LAMB's moments.
      weight_decay: added to the update, w -= lr (update + decay w), as AdamW's; float, Keras schedule, or
        callable without arguments.
      product_dtype: 'float32', or 'bfloat16' for the products of the Newton-Schulz steps of matrices with one side
        up to about four times the other.
      share_work: orthogonalise each matrix on one replica, and send it to the others. None: where it pays.
      {shared}

    Raises:
      ValueError: a hyperparameter is out of its range, a pattern does not compile, or, when the variables are
        known, a treatment does not fit a variable.
    """
)


@dataclasses.dataclass
class Muon(LambOfVectors, MatrixRule):
    """The rule of `tfbigbatch.Muon`; `DOCSTRING` explains the hyperparameters."""

    arguments = TABLES["muon"]
    slot_names = ("momentum", "second_moment", "m", "v")
    of_state = frozenset({"matrices", "normuon_beta"})

    momentum: float
    nesterov: bool
    newton_schulz_steps: int
    coefficients: str
    scale: str
    normuon_beta: float | None
    matrices: matrices.Treatments
    vectors: str
    vector_learning_rate_ratio: float
    beta_1: float
    beta_2: float
    epsilon: float
    product_dtype: str
    share_work: bool | None

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

    def apply_transformed(
        self,
        gradient: Tensor,
        weight: Tensor,
        slots: Sequence[Tensor],
        transformed: Sequence[Tensor],
        view: MatrixView,
        *,
        step: Tensor,
        learning_rate: Tensor,
        weight_decay: Tensor | float,
        adapt: bool,
    ) -> tuple[Tensor, ...]:
        """w <- w - lr (factor O + wd w) with the orthogonalised momentum O; for 'trust_ratio' LAMB's ratio on top."""
        del gradient, step
        [orthogonal], new_slots = transformed, list(slots)
        if self.normuon_beta is not None:
            orthogonal, new_slots[1] = orthogonalization.normalize_outputs(orthogonal, slots[1], beta=self.normuon_beta)
        factor = orthogonalization.update_scale(self.scale, *view.matrix_shape[1:])
        update = factor * view.from_matrices(orthogonal) + weight_decay * weight
        ratio = of(weight).ones([], weight.dtype)
        if self.scale == "trust_ratio" and adapt:
            weight_norm, update_norm = rules.norm(weight), rules.norm(update)
            ratio = rules.trust_ratio(weight_norm, update_norm, weight_norm, update_norm)
        return weight - learning_rate * ratio * update, *new_slots, ratio

    def _adapts_vectors(self) -> bool:
        return self.vectors == "lamb"

    def config(self) -> dict[str, Any]:
        return {**super().config(), "matrices": [list(pair) for pair in self.matrices]}


@with_rule(Muon)
class Optimizer:
    """The constructor of `tfbigbatch.Muon` in both Kerases; `DOCSTRING` explains it."""

    def __init__(
        self,
        learning_rate: Any = 0.02,
        *,
        momentum: float = 0.95,
        nesterov: bool = True,
        newton_schulz_steps: int = 5,
        coefficients: str = "quintic",
        scale: str = "rms",
        normuon_beta: float | None = None,
        matrices: Any = (),
        vectors: str = "adam",
        vector_learning_rate_ratio: float = 1.0,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        epsilon: float = 1e-8,
        weight_decay: Any = 0.0,
        product_dtype: str = "float32",
        share_work: bool | None = None,
        name: str = "Muon",
        **kwargs: Unpack[LayerwiseArguments],
    ) -> None: ...
