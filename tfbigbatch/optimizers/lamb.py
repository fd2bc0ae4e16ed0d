"""LAMB, free of any Keras: hyperparameters, their checks, and the update of one variable."""

from tfbigbatch.optimizers import rules


class LAMBMixin:
    """Layer-wise Adaptive Moments for Batch training, You et al. 2020 (arXiv:1904.00962).

    Adam's direction plus weight decay, rescaled for each layer to the norm of its weights. The
    decay is inside the update whose norm enters the trust ratio, as in the paper.

    Args:
      learning_rate: float, Keras schedule or callable; counts optimizer updates.
      beta_1, beta_2: decay of the first and second moment, each in [0, 1).
      epsilon: added to the root of the second moment. 0 means 0.
      weight_decay: the paper's lambda.
      bias_correction: divide the moments by 1 - beta^step.
      exclude_from_weight_decay: regular expressions, found in the variables' paths.
      exclude_from_layer_adaptation: likewise; None means as weight decay, [] means none.
      clipnorm, clipvalue, global_clipnorm, use_ema, ema_momentum, ema_overwrite_frequency,
        jit_compile: Keras' own. Clipping follows the reduction over replicas.

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
        name="LAMB",
        **kwargs,
    ):
        for label, beta in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"LAMB: {label}={beta} is out of range; expected 0 <= {label} < 1.")
        super().__init__(learning_rate, weight_decay=weight_decay, name=name, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction

    def updated(self, gradient, weight, slots, *, learning_rate, step, weight_decay, adapt):
        """The weight and slots after one update; all float32."""
        weight, m, v = rules.lamb(
            gradient,
            weight,
            *slots,
            learning_rate=learning_rate,
            step=step,
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
            weight_decay=weight_decay,
            bias_correction=self.bias_correction,
            adapt=adapt,
        )
        return weight, (m, v)

    def get_config(self):
        config = super().get_config()
        config.update(
            beta_1=self.beta_1, beta_2=self.beta_2, epsilon=self.epsilon, bias_correction=self.bias_correction
        )
        return config
