"""AdamW, with what LARS and LAMB have beside it.

Keras has one of its own, with the same numbers. This one has sharded updates above all: those need the order of a step
that `step` holds, which Keras' optimizers do not let in.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfbigbatch.optimizers import declared
from tfbigbatch.optimizers.declared import Changing, hyper
from tfbigbatch.optimizers.rule import Layer, Now, Rule, Tensor, Updated, View, corrections, of


class AdamW(Rule):
    """AdamW, Loshchilov and Hutter 2019 (arXiv:1711.05101), with the numbers of Keras' AdamW.

    Adam's step, of decoupled weight decay: w -= learning rate x decay x w before it.

    Raises:
      ValueError: a hyperparameter is out of its range, or a pattern does not compile.
    """

    weight_decay: Changing = hyper(
        declared.decay, "float, Keras schedule, or callable without arguments.", default=0.004
    )
    beta_1: float = hyper(declared.fraction, "decay of the first moment, in [0, 1).", default=0.9)
    beta_2: float = hyper(declared.fraction, "decay of the second moment, in [0, 1).", default=0.999)
    epsilon: float = hyper(
        declared.not_negative,
        "added to the root of the second moment before its bias is corrected, as in Keras.",
        default=1e-7,
    )
    amsgrad: bool = hyper(declared.flag, "divide by the largest second moment so far.", default=False, of_state=True)
    decay_exclusions: Sequence[str] | str | None = hyper(
        declared.patterns,
        "regular expressions, searched in the variables' paths; or 'norm_and_bias', biases and what normalisation "
        "layers own. None or []: nothing is excluded.",
        default=None,
        alias="exclude_from_weight_decay",
    )

    slot_names = ("m", "v", "largest_v")

    def state_shapes(self, shape: tuple[int, ...], view: View | None) -> dict[str, tuple[int, ...]]:
        del view
        return dict.fromkeys(self.slot_names if self.amsgrad else self.slot_names[:2], shape)

    def update(self, gradient: Tensor, weight: Tensor, slots: Sequence[Tensor], layer: Layer, now: Now) -> Updated:
        """Algorithm 2; epsilon is added to the root of the second moment before its bias is corrected.

        On a CPU outside XLA TensorFlow's in-place kernels run in its place, but for amsgrad and an epsilon of 0.
        """
        del layer
        ops, (m, v, *largest) = of(weight), slots
        m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        v = self.beta_2 * v + (1.0 - self.beta_2) * ops.square(gradient)
        first, second = corrections(now.number, self.beta_1, self.beta_2)
        largest = [ops.maximum(each, v) for each in largest]
        # divide_no_nan: with epsilon 0 an entry that never had a gradient is 0 / 0, and stays where it is.
        update = ops.divide_no_nan(m, ops.sqrt(largest[0] if largest else v) + self.epsilon)
        # Not in place: on PyTorch the tensor is the variable's own.
        weight = weight - now.learning_rate * now.weight_decay * weight
        weight = weight - now.learning_rate * ops.sqrt(second) / first * update
        return weight, (m, v, *largest), ops.ones_like(now.number)

    def kernel(self) -> str | None:
        # Adam's kernel has no guard for 0 / 0.
        return "adamw" if self.epsilon > 0.0 and not self.amsgrad else None
