"""The optimizers that `optimizers.py` times: ours and its peers, all with the same settings.

    python benchmarks/baselines.py

Lists their names. A package is imported only when an optimizer of it is made.
"""

import dataclasses
import importlib
import sys
from collections.abc import Callable

from tfbigbatch.errors import InputError, nearest
from tfbigbatch.utils import command

RATE = 1e-3
DECAY = 0.01
EXCLUDED = ["bias", "gamma", "beta"]


@dataclasses.dataclass(frozen=True)
class Rule:
    """What an update rule keeps and must at least move, for each float32 parameter."""

    slots: int
    floor_bytes: int
    passes: str
    ours: str


RULES = {
    "lamb": Rule(2, 40, "reads g, m, v, w, writes m, v; then reads m, v, w, writes w", "tfbigbatch_lamb"),
    "lars": Rule(1, 28, "reads g, w; then reads g, w, v, writes w, v", "tfbigbatch_lars"),
    "adam": Rule(2, 28, "reads g, m, v, w, writes m, v, w", "tfbigbatch_lamb"),
    # Statistics and roots of ResNet-50 are 1.5 numbers a parameter each.
    "shampoo": Rule(5, 52, "reads g, w, both momenta, statistics, roots, writes all but g", "tfbigbatch_shampoo"),
}


@dataclasses.dataclass(frozen=True)
class Contender:
    """An optimizer to time.

    Attributes:
      title: how the tables call it.
      rule: key of RULES.
      make: function of Keras' arguments that makes the optimizer; ImportError where its package is missing.
      keras3: it takes Keras 3's variables; TensorFlow's otherwise.
      clips: it clips by the global norm itself (`global_clipnorm`); else its users do, before the update.
    """

    title: str
    rule: str
    make: Callable
    keras3: bool = False
    clips: bool = True


def _ours(face, name, **arguments):
    def make(**more):
        module = importlib.import_module(f"tfbigbatch.optimizers.{face}")
        fields = {"weight_decay": DECAY, "exclude_from_weight_decay": EXCLUDED, **arguments, **more}
        return getattr(module, name)(RATE, **fields)

    return make


def _tfm(file, name):
    def make():
        module = importlib.import_module(f"official.modeling.optimization.{file}")
        return getattr(module, name)(RATE, weight_decay_rate=DECAY, exclude_from_weight_decay=EXCLUDED)

    return make


def _tfa_lamb():
    # Addons looks for Keras 2 under names that Keras 3 has taken; it must find `tf_keras` there.
    for module in ("engine", "engine.keras_tensor"):
        sys.modules.setdefault(f"keras.src.{module}", importlib.import_module(f"tf_keras.src.{module}"))
    import tensorflow_addons

    return tensorflow_addons.optimizers.LAMB(RATE, weight_decay=DECAY, exclude_from_weight_decay=EXCLUDED)


def _keras_lamb(**more):
    import keras

    optimizer = keras.optimizers.Lamb(RATE, weight_decay=DECAY, epsilon=1e-6, **more)
    # It knows no exclusion from the layer adaptation.
    optimizer.exclude_from_weight_decay(var_names=EXCLUDED)
    return optimizer


def _keras_adam(**more):
    import keras

    return keras.optimizers.Adam(RATE, **more)


def _tf_keras_adam(**more):
    import tf_keras

    return tf_keras.optimizers.Adam(RATE, **more)


def _legacy_adam():
    import tf_keras

    return tf_keras.optimizers.legacy.Adam(RATE)


BASELINES = {
    "tfbigbatch_lamb": Contender("tfbigbatch LAMB", "lamb", _ours("tf_keras", "LAMB")),
    "tfbigbatch_lars": Contender("tfbigbatch LARS", "lars", _ours("tf_keras", "LARS")),
    "tfbigbatch_keras3_lamb": Contender("tfbigbatch LAMB, Keras 3", "lamb", _ours("keras3", "LAMB"), keras3=True),
    "tfbigbatch_keras3_lars": Contender("tfbigbatch LARS, Keras 3", "lars", _ours("keras3", "LARS"), keras3=True),
    "tfbigbatch_shampoo": Contender("tfbigbatch Shampoo", "shampoo", _ours("tf_keras", "Shampoo")),
    # Most of its steps compute no roots.
    "tfbigbatch_shampoo_100": Contender(
        "tfbigbatch Shampoo, root_every=100", "shampoo", _ours("tf_keras", "Shampoo", root_every=100)
    ),
    "tfm_lamb": Contender("tf-models-official LAMB", "lamb", _tfm("lamb", "LAMB"), clips=False),
    "tfm_lars": Contender("tf-models-official LARS", "lars", _tfm("lars", "LARS"), clips=False),
    "tfa_lamb": Contender("tensorflow-addons LAMB", "lamb", _tfa_lamb, clips=False),
    "keras_lamb": Contender("Keras 3 Lamb", "lamb", _keras_lamb, keras3=True),
    "keras_adam": Contender("Keras 3 Adam", "adam", _keras_adam, keras3=True),
    "tf_keras_adam": Contender("tf_keras Adam", "adam", _tf_keras_adam),
    "legacy_adam": Contender("tf_keras legacy Adam", "adam", _legacy_adam, clips=False),
}


def get(name):
    """The baseline of that name.

    Raises:
      InputError: the name is unknown; the nearest known one is told.
    """
    if name not in BASELINES:
        raise InputError(f"--optimizers={name}: unknown. {nearest(name, BASELINES)}")
    return BASELINES[name]


def floor_bytes(name, clip_norm, precision):
    """What an update must at least move for each parameter.

    A global norm, and the test that float16's gradients are finite, read all gradients once before anything changes.
    """
    width = 4 if precision == "float32" else 2
    reads = 2 if clip_norm or precision == "float16" else 1
    return rule(name).floor_bytes - 4 + width * reads


def scaled(baseline, optimizer):
    """The optimizer with loss scaling, as users of float16 have it."""
    if not baseline.keras3:
        import tf_keras

        return tf_keras.mixed_precision.LossScaleOptimizer(optimizer)
    home = importlib.import_module(
        "tfbigbatch.optimizers.keras3" if baseline.title.startswith("tfbigbatch") else "keras.optimizers"
    )
    return home.LossScaleOptimizer(optimizer)


def rule(name):
    """The Rule of the baseline of that name."""
    return RULES[get(name).rule]


def make_variable(baseline, path, value):
    """A variable of the kind that the baseline takes, named `path`."""
    if not baseline.keras3:
        import tensorflow as tf

        return tf.Variable(value, name=path)
    import keras

    scope, name = path.rsplit("/", 1)
    with keras.name_scope(scope.replace("/", "_")):
        return keras.Variable(value, name=name)


def build(optimizer, variables):
    """Makes the optimizer's slots, whatever generation it is of."""
    if hasattr(optimizer, "_create_all_weights"):  # tf_keras' legacy base class
        optimizer._create_all_weights(variables)
    else:
        optimizer.build(variables)


def _main(unused):
    for name, baseline in BASELINES.items():
        print(f"{name}: {baseline.title}")


if __name__ == "__main__":
    command.execute(_main)
