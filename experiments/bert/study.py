"""Pretraining at 32 times the batch: our LAMB beside tuned AdamW, Keras 3's Lamb and tf-models-official's LAMB.

    python tools/prepare_bert.py --source=WIKITEXT_2/train.txt --train_vocab_size=1024 --max_seq_length=64 \\
      --max_predictions_per_seq=10 --validation_share=0.03 --output_dir=data/wikitext_1k_64
    python tools/study.py --study=experiments/bert/study.py --model_dir=runs/bert_study \\
      --data_dir=data/wikitext_1k_64 --processes=2 --results=docs/results/bert

BERT-tiny without dropout, four epochs of WikiText-2: 210,000 sequences of 64 tokens. Every rate tried is a row, at
seed 0; the best of each method at 2,048 has three seeds. The vocabulary is small, so that so short a run learns more
than how often each token comes. Not run yet.
"""

import keras
import tf_keras
from official.modeling.optimization import lamb

from tfbigbatch import experiment, optimizers, study

SMALL, LARGE = 64, 2048
WARMUP_EPOCHS = {SMALL: 0.1, LARGE: 0.8}
# Of each method at LARGE, the best of its rates; it has three seeds.
CHOSEN = {"LAMB": 0.02, "AdamW": 0.002, "Keras 3 Lamb": 0.02, "tf-models LAMB": 0.02}
SETTINGS = {"weight_decay": 0.01, "global_clipnorm": 1.0}
ADAPTED = {**SETTINGS, "epsilon": 1e-6}
# A method's optimizer, and the rates tried at each batch size.
RATES = {SMALL: (0.0025, 0.005, 0.01), LARGE: (0.01, 0.02, 0.04)}
METHODS = {
    "LAMB": ({"name": "lamb", "exclude_from_weight_decay": "norm_and_bias", **ADAPTED}, RATES),
    "AdamW": (
        {"name": "adamw", "exclude_from_weight_decay": "norm_and_bias", **SETTINGS},
        {SMALL: (0.0005, 0.001, 0.002), LARGE: (0.001, 0.002, 0.004)},
    ),
    "Keras 3 Lamb": ({"name": "keras3_lamb", **ADAPTED}, RATES),
    "tf-models LAMB": ({"name": "tfm_lamb", **ADAPTED}, RATES),
}
# Patterns of variables without weight decay: what "norm_and_bias" stands for in these networks.
_NOT_DECAYED = ["bias", "layer_norm", "gamma", "beta"]


class _Other(tf_keras.optimizers.Optimizer):
    """An optimizer of tf_keras that hands clipped gradients and the scheduled rate to one of another kind."""

    def __init__(self, learning_rate, weight_decay=0.0, epsilon=1e-6, global_clipnorm=None):
        super().__init__("other", global_clipnorm=global_clipnorm)
        self._learning_rate = self._build_learning_rate(learning_rate)
        self._arguments = (weight_decay, epsilon)

    def get_config(self):
        weight_decay, epsilon = self._arguments
        return {**super().get_config(), "weight_decay": weight_decay, "epsilon": epsilon}


class _Keras3Lamb(_Other):
    """It updates variables of its own Keras, which the network's then follow."""

    def build(self, var_list):
        super().build(var_list)
        if hasattr(self, "_kept"):
            return
        weight_decay, epsilon = self._arguments
        self._lamb = self._no_dependency(keras.optimizers.Lamb(1.0, weight_decay=weight_decay, epsilon=epsilon))
        self._lamb.exclude_from_weight_decay(var_names=_NOT_DECAYED)
        self._mirrors = self._no_dependency([keras.Variable(each, name=_flat_name(each)) for each in var_list])
        self._lamb.build(self._mirrors)
        # For the checkpoints.
        self._kept = [each.value for each in self._lamb.variables]

    def _internal_apply_gradients(self, grads_and_vars):
        self._lamb.learning_rate.assign(self.learning_rate)
        gradients, variables = zip(*grads_and_vars)
        for mirror, variable in zip(self._mirrors, variables):
            mirror.assign(variable)
        self._lamb.apply(gradients, self._mirrors)
        for mirror, variable in zip(self._mirrors, variables):
            variable.assign(mirror.value)
        return self.iterations.assign_add(1)


class _TFModelsLamb(_Other):
    """It is of tf_keras' older kind of optimizers."""

    def build(self, var_list):
        super().build(var_list)
        if hasattr(self, "_lamb"):
            return
        weight_decay, epsilon = self._arguments
        self._lamb = lamb.LAMB(
            lambda: self.learning_rate,
            epsilon=epsilon,
            weight_decay_rate=weight_decay,
            exclude_from_weight_decay=_NOT_DECAYED,
        )
        self._lamb._create_all_weights(var_list)

    def _internal_apply_gradients(self, grads_and_vars):
        self._lamb.apply_gradients(grads_and_vars, experimental_aggregate_gradients=False)
        return self.iterations.assign_add(1)


def _flat_name(variable):
    # Keras 3 takes no path for a name.
    return variable.name.split(":")[0].replace("/", ".")


optimizers.register("keras3_lamb", _Keras3Lamb)
optimizers.register("tfm_lamb", _TFModelsLamb)


def get_study():
    table = study.new("WikiText-2, BERT-tiny, 4 epochs")
    for name, (optimizer, rates) in METHODS.items():
        for batch_size in (SMALL, LARGE):
            for rate in rates[batch_size]:
                chosen = batch_size == LARGE and rate == CHOSEN[name]
                table.add(f"{name}, {rate}", _config(optimizer, batch_size, rate), seeds=(0, 1, 2) if chosen else (0,))
    return table


def _config(optimizer, batch_size, rate):
    config = experiment.variant_of(__file__, "tiny.py")
    config.model.dropout = config.model.attention_dropout = 0.0
    config.duration = "4 epochs"
    config.evaluate_every = config.checkpoint_every = "0.5 epochs"
    if batch_size == LARGE:
        config.log_every = "0.25 epochs"
        config.steps_per_execution = 1
    recipe = {"tuned_at": batch_size, "learning_rate": rate, "warmup_epochs": WARMUP_EPOCHS[batch_size]}
    return study.carried(config, batch_size, "none", optimizer=optimizer, **recipe)
