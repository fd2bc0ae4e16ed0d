"""Pretraining at 32 times the batch: our LAMB beside AdamW, Nesterov momentum, and two other LAMBs.

    tfbigbatch prepare-bert --source=WIKITEXT_2/train.txt --train_vocab_size=1024 --max_seq_length=32 \\
      --max_predictions_per_seq=5 --validation_fraction=0.03 --output_dir=data/wikitext_1k_32
    tfbigbatch study --study=results/bert_study.py --model_dir=runs/bert_study \\
      --data_dir=data/wikitext_1k_32 --processes=2 --results=results/bert \\
      --results_cache=results/runs.jsonl.gz

wikitext.py's BERT of two layers of 64, twelve epochs: 800,000 sequences of 32 tokens, 391 updates at 2,048. The
trials of a rate are rows too, at seed 0; LEGW's rate and twice that have three, and Nesterov's best. Keras 3's Lamb
and tf-models-official's train in the same trainer, at our LAMB's rates. 45 runs, eight minutes each on a CPU core;
what they gave: docs/results/bert_pretraining.md.
"""

import importlib

import keras
import tensorflow as tf
import tf_keras

from tfbigbatch import experiment, optimizers, studies

SMALL, LARGE = 64, 2048
SETTINGS = {"weight_decay": 0.01, "global_clipnorm": 1.0}
ADAPTED = {**SETTINGS, "epsilon": 1e-6}
OPTIMIZERS = {
    "LAMB": {"name": "lamb", "exclude_from_weight_decay": "norm_and_bias", **ADAPTED},
    "AdamW": {"name": "adamw", "exclude_from_weight_decay": "norm_and_bias", **SETTINGS},
    "Nesterov momentum": {"name": "momentum", "momentum": 0.9, "nesterov": True, "global_clipnorm": 1.0},
    "Keras 3 Lamb": {"name": "keras3_lamb", **ADAPTED},
    "tf-models LAMB": {"name": "tfm_lamb", **ADAPTED},
}
# Rates at SMALL; LEGW carries the first to LARGE.
RATES = {
    "LAMB": (0.005, 0.0025, 0.01),
    "AdamW": (0.001, 0.0005, 0.002),
    "Keras 3 Lamb": (0.005,),
    "tf-models LAMB": (0.005,),
}
# Times LEGW's rate that are tried at LARGE with its warm-up.
TIMES = {"LAMB": (1, 0.5, 2, 4), "AdamW": (1, 0.25, 0.5, 2), "Keras 3 Lamb": (1,), "tf-models LAMB": (1,)}
# One seed misleads: at twice LEGW's rate LAMB's three get 27, 14 and 17%, AdamW's 16, 29 and 12%.
THREE_SEEDS = (1, 2)
# Has no rate at SMALL to carry.
NESTEROV_RATES = (0.3, 0.1, 1.0)
WARMUP_EPOCHS, LEGW_WARMUP_EPOCHS = 0.1, 3.2
# What was tried first at LARGE: a quarter of LEGW's warm-up.
SHORT_WARMUP_EPOCHS = 0.8
SHORT_WARMUP = {"LAMB": 0.02, "Keras 3 Lamb": 0.02, "AdamW": 0.002}
# Patterns of variables without weight decay: what "norm_and_bias" stands for in these networks.
_NOT_DECAYED = ["bias", "layer_norm", "gamma", "beta"]


class _Other(tf_keras.optimizers.Optimizer):
    """An optimizer of tf_keras that hands clipped gradients and the scheduled rate to one of another kind."""

    def __init__(self, learning_rate, weight_decay=0.0, epsilon=1e-6, global_clipnorm=None):
        super().__init__("other", global_clipnorm=global_clipnorm)
        self._learning_rate = self._build_learning_rate(learning_rate)
        self._arguments = (weight_decay, epsilon)

    def get_config(self) -> experiment.Config:
        weight_decay, epsilon = self._arguments
        return {**super().get_config(), "weight_decay": weight_decay, "epsilon": epsilon}


class _Keras3Lamb(_Other):
    """It updates variables of its own Keras, which the network's then follow."""

    def build(self, var_list: list[tf.Variable]) -> None:
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

    def build(self, var_list: list[tf.Variable]) -> None:
        super().build(var_list)
        if hasattr(self, "_lamb"):
            return
        weight_decay, epsilon = self._arguments
        self._lamb = importlib.import_module("official.modeling.optimization.lamb").LAMB(
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


def get_study() -> studies.Study:
    table = studies.Study("WikiText-2, a BERT of 2 x 64, 12 epochs")
    for name, rates in RATES.items():
        for rate in rates:
            table.add(f"{name}, {rate}", _config(name, SMALL, rate, WARMUP_EPOCHS, "none"))
    table.add("LAMB, naive", _config("LAMB", LARGE, RATES["LAMB"][0], WARMUP_EPOCHS, "none"), seeds=(0, 1, 2))
    for name, all_times in TIMES.items():
        for times in all_times:
            config = _config(name, LARGE, times * RATES[name][0], WARMUP_EPOCHS, "legw")
            table.add(f"{name}, LEGW x{times}", config, seeds=(0, 1, 2) if times in THREE_SEEDS else (0,))
    for rate in NESTEROV_RATES:
        config = _config("Nesterov momentum", LARGE, rate, LEGW_WARMUP_EPOCHS, "none")
        table.add(f"Nesterov momentum, {rate}", config, seeds=(0, 1, 2) if rate == NESTEROV_RATES[0] else (0,))
    for name, rate in SHORT_WARMUP.items():
        config = _config(name, LARGE, rate, SHORT_WARMUP_EPOCHS, "none")
        table.add(f"{name}, {rate}, short warm-up", config, seeds=(0,) if name == "AdamW" else (0, 1, 2))
    return table


def _config(name, batch_size, rate, warmup_epochs, rule):
    config = experiment.load("bert/wikitext")
    if batch_size == LARGE:
        config.log_every = "0.25 epochs"
    tuned_at = batch_size if rule == "none" else SMALL
    recipe = {"tuned_at": tuned_at, "learning_rate": rate, "warmup_epochs": warmup_epochs}
    return studies.scaled(config, batch_size, rule, optimizer=OPTIMIZERS[name], **recipe)
