"""LARS, free of any Keras: hyperparameters, their checks, and the update of one variable."""

from tfbigbatch.optimizers import rules

FORMS = ("paper", "tfm", "momentum_ratio")


class LARSMixin:
    """Layer-wise Adaptive Rate Scaling, You et al. 2017 (arXiv:1708.03888).

    Each layer's step has a length in proportion to the norm of its weights, so that one learning
    rate serves all layers at very large batches.

    Args:
      learning_rate: float, Keras schedule or callable; counts optimizer updates.
      momentum: in [0, 1).
      weight_decay: added to the gradient before the momentum, as the paper's beta.
      eeta: the trust coefficient of the ratio.
      epsilon: added to the ratio's denominator. 0 means 0, as MLPerf's rules ask.
      nesterov: Nesterov momentum.
      form: 'paper' (MLPerf's), 'tfm' (tf-models-official, optax) or 'momentum_ratio'
        (tf-models-official with `classic_momentum=False`); see `rules.lars`.
      exclude_from_weight_decay: regular expressions, found in the variables' paths.
      exclude_from_layer_adaptation: likewise; None means as weight decay, [] means none.
      clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency,
        jit_compile: Keras' own. Clipping follows the reduction over replicas.

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
        if form not in FORMS:
            raise ValueError(f"LARS: form={form!r} is unknown; expected one of {', '.join(FORMS)}.")
        super().__init__(learning_rate, weight_decay=weight_decay, name=name, **kwargs)
        self.momentum = momentum
        self.eeta = eeta
        self.epsilon = epsilon
        self.nesterov = nesterov
        self.form = form

    def updated(self, gradient, weight, slots, *, learning_rate, step, weight_decay, adapt):
        """The weight and slots after one update; all float32."""
        weight, momentum_slot = rules.lars(
            gradient,
            weight,
            *slots,
            learning_rate=learning_rate,
            momentum=self.momentum,
            weight_decay=weight_decay,
            eeta=self.eeta,
            epsilon=self.epsilon,
            nesterov=self.nesterov,
            adapt=adapt,
            form=self.form,
        )
        return weight, (momentum_slot,)

    def get_config(self):
        config = super().get_config()
        config.update(
            momentum=self.momentum, eeta=self.eeta, epsilon=self.epsilon, nesterov=self.nesterov, form=self.form
        )
        return config
