"""LAMB, free of any Keras: hyperparameters, their checks, and the update of one layer."""

from tfbigbatch.optimizers import cpu_kernels, rules
from tfbigbatch.optimizers.layerwise import Layerwise


class LAMBMixin(Layerwise):
    """Layer-wise Adaptive Moments for Batch training, You et al. 2020 (arXiv:1904.00962).

    Adam's direction plus weight decay, rescaled for each layer to the norm of its weights. The
    decay is inside the update whose norm enters the trust ratio, as in the paper.

    Args:
      learning_rate: float, Keras schedule, or callable without arguments; counts optimizer updates.
      beta_1, beta_2: decay of the first and second moment, each in [0, 1).
      epsilon: added to the root of the second moment. 0 means 0.
      weight_decay: the paper's lambda; float, Keras schedule, or callable without arguments.
      bias_correction: divide the moments by 1 - beta^step.
      trust_ratio_bounds: None, or (low, high) for the trust ratio; either may be None.
      pre_normalize: divide all gradients by their global norm first, as NVIDIA's NVLAMB. Global
        clipping then changes nothing.
      {shared}

    Raises:
      ValueError: a hyperparameter is out of its range, or a pattern does not compile.
    """

    slot_names = ("m", "v")

    def __init__(
        self,
        learning_rate=0.001,
        *,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        weight_decay=0.0,
        bias_correction=True,
        trust_ratio_bounds=None,
        pre_normalize=False,
        name="LAMB",
        **kwargs,
    ):
        for label, beta in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"LAMB: {label}={beta} is out of range; expected 0 <= {label} < 1.")
        if not epsilon >= 0.0:
            raise ValueError(f"LAMB: epsilon={epsilon} is out of range; expected 0 or more.")
        super().__init__(learning_rate, weight_decay=weight_decay, name=name, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self.trust_ratio_bounds = _checked_bounds(trust_ratio_bounds)
        self.pre_normalize = pre_normalize

    def _updated(self, gradient, weight, slots, **options):
        return rules.lamb(
            gradient, weight, *slots, **self._hyperparameters(), bounds=self.trust_ratio_bounds, **options
        )

    def _has_kernels(self):
        # Adam's kernel divides by sqrt(v) + epsilon, and 0 / 0 has no guard there.
        return self.epsilon > 0.0

    def _kernel_scalars(self, number):
        return cpu_kernels.adam_scalars(number, **self._hyperparameters())

    def _update_in_place(self, gradient, weight, slots, **options):
        return cpu_kernels.lamb(gradient, weight, *slots, bounds=self.trust_ratio_bounds, **options)

    def _hyperparameters(self):
        names = ("beta_1", "beta_2", "epsilon", "bias_correction")
        return {name: getattr(self, name) for name in names}

    def get_config(self):
        bounds = self.trust_ratio_bounds
        return {
            **super().get_config(),
            **self._hyperparameters(),
            "trust_ratio_bounds": list(bounds) if bounds else None,
            "pre_normalize": self.pre_normalize,
        }


def _checked_bounds(bounds):
    if bounds is None:
        return None
    expected = "expected (low, high) with 0 <= low <= high, either of them None for no bound."
    try:
        low, high = bounds
        right = (low is None or low >= 0.0) and (high is None or high >= (low or 0.0))
    except (TypeError, ValueError):
        right = False
    if not right:
        raise ValueError(f"LAMB: trust_ratio_bounds={bounds!r} is not a pair of bounds; {expected}")
    return (low, high)
