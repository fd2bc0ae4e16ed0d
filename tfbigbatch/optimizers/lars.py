"""LARS, free of any Keras: hyperparameters, their checks, and the update of one layer."""

from tfbigbatch.optimizers import cpu_kernels, rules
from tfbigbatch.optimizers.layerwise import Layerwise

FORMS = ("paper", "tfm", "momentum_ratio")


class LARSMixin(Layerwise):
    """Layer-wise Adaptive Rate Scaling, You et al. 2017 (arXiv:1708.03888).

    Each layer's step has a length in proportion to the norm of its weights, so that one learning
    rate serves all layers at very large batches.

    Args:
      learning_rate: float, Keras schedule, or callable without arguments; counts optimizer updates.
      momentum: in [0, 1).
      weight_decay: added to the gradient before the momentum, as the paper's beta; float, Keras
        schedule, or callable without arguments.
      eeta: the trust coefficient of the ratio.
      epsilon: added to the ratio's denominator. 0 means 0, as MLPerf's rules ask.
      nesterov: Nesterov momentum.
      form: 'paper' (MLPerf's), 'tfm' (tf-models-official, optax) or 'momentum_ratio'
        (tf-models-official with `classic_momentum=False`); see `rules.lars`.
      {shared}

    Raises:
      ValueError: a hyperparameter is out of its range, or a pattern does not compile.
    """

    slot_names = ("momentum",)

    def __init__(
        self,
        learning_rate=0.01,
        *,
        momentum=0.9,
        weight_decay=0.0,
        eeta=0.001,
        epsilon=0.0,
        nesterov=False,
        form="paper",
        name="LARS",
        **kwargs,
    ):
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"LARS: momentum={momentum} is out of range; expected 0 <= momentum < 1.")
        if not eeta > 0.0:
            raise ValueError(f"LARS: eeta={eeta} is out of range; expected eeta > 0.")
        if not epsilon >= 0.0:
            raise ValueError(f"LARS: epsilon={epsilon} is out of range; expected 0 or more.")
        if form not in FORMS:
            raise ValueError(f"LARS: form={form!r} is unknown; expected one of {', '.join(FORMS)}.")
        super().__init__(learning_rate, weight_decay=weight_decay, name=name, **kwargs)
        self.momentum = momentum
        self.eeta = eeta
        self.epsilon = epsilon
        self.nesterov = nesterov
        self.form = form

    def _updated(self, gradient, weight, slots, *, step, **options):
        return rules.lars(gradient, weight, *slots, **self._hyperparameters(), **options)

    def _has_kernels(self):
        return self.form != "momentum_ratio"

    def _update_in_place(self, gradient, weight, slots, *, scalars, **options):
        return cpu_kernels.lars(gradient, weight, *slots, **self._hyperparameters(), **options)

    def _hyperparameters(self):
        names = ("momentum", "eeta", "epsilon", "nesterov", "form")
        return {name: getattr(self, name) for name in names}

    def get_config(self):
        return {**super().get_config(), **self._hyperparameters()}
