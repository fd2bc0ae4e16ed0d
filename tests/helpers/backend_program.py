"""What the optimizers of Keras 3 do on one backend, as arrays by name.

`KERAS_BACKEND=jax python -m tests.helpers.backend_program FOLDER` trains, and leaves FOLDER/jax.npz and the files of
models that another backend continues. On JAX it needs four devices: XLA_FLAGS=--xla_force_host_platform_device_count=4.
With `quick` after FOLDER it takes a few steps only.
"""

import os
import sys

import keras
import numpy as np

import tfbigbatch
from tfbigbatch.optimizers import keras3

BATCH = 16
OPTIMIZERS = {
    "lars": lambda: keras3.LARS(0.5, weight_decay=1e-3, exclude_from_weight_decay="norm_and_bias", nesterov=True),
    "lars tfm": lambda: keras3.LARS(0.5, form="tfm", clipvalue=0.01),
    "lamb": lambda: keras3.LAMB(0.02, weight_decay=0.01, global_clipnorm=1.0, trust_ratio_bounds=(None, 2.0)),
    "nvlamb": lambda: keras3.LAMB(scheduled(), pre_normalize=True, bias_correction=False),
    "muon": lambda: keras3.Muon(0.02, normuon_beta=0.9, weight_decay=0.1),
    "muon in gram": lambda: keras3.Muon(0.02, coefficients="polar_express", scale="trust_ratio", vectors="lamb"),
    "adamw": lambda: keras3.AdamW(0.01, clipnorm=0.5, amsgrad=True),
    "accumulated": lambda: keras3.LAMB(0.02, accumulation_steps=2, global_clipnorm=0.1),
    "growing": lambda: keras3.Muon(0.02, accumulation_steps=tfbigbatch.optimizers.AccumulationSchedule([1, 3], [2, 1])),
    "averaged": lambda: keras3.LAMB(0.02, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=3),
}


def scheduled():
    """LEGW's warm-up and a decay, by a recipe."""
    recipe = tfbigbatch.Recipe(batch_size=4, learning_rate=0.01, warmup_epochs=0.5, epochs=4)
    return recipe.at(BATCH, "legw").schedule(64, keras="keras3")


def data():
    random = np.random.RandomState(0)
    return random.normal(size=(64, 8, 8, 1)).astype("float32"), random.randint(0, 3, size=64)


def small_model(dtype="float32"):
    """A convolution, a wide and a narrow matrix, and vectors; the weights are the same on all backends."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(4, 3, name="conv", dtype=dtype),
            layers.Flatten(),
            layers.Dense(16, activation="tanh", name="hidden", dtype=dtype),
            layers.Dense(3, name="head", dtype="float32"),
        ]
    )
    random = np.random.RandomState(1)
    model.set_weights([random.normal(scale=0.2, size=weight.shape) for weight in model.get_weights()])
    return model


def compiled(optimizer, dtype="float32"):
    model = small_model(dtype)
    model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=keras.config.backend() == "jax",
    )
    return model


def fit(model, epochs=2):
    model.fit(*data(), batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0)
    return model


def weights(prefix, model):
    return {f"{prefix}/{index}": np.asarray(value, "float32") for index, value in enumerate(model.get_weights())}


def results():
    """The weights after two epochs of eight micro-batches by each optimizer, and the steps counted."""
    found = {}
    for name, optimizer in OPTIMIZERS.items():
        model = fit(compiled(optimizer()))
        found.update(weights(name, model))
        found[f"{name}/steps"] = np.array(int(keras.ops.convert_to_numpy(model.optimizer.iterations)))
    found.update(weights("bfloat16", fit(compiled(keras3.LAMB(0.02), "mixed_bfloat16"))))
    return found


def steps():
    """The weights after four steps of given gradients by LARS, LAMB and Muon."""
    found = {}
    for name in ("lars", "lamb", "muon"):
        optimizer, model = OPTIMIZERS[name](), small_model()
        optimizer.build(model.trainable_variables)
        for number in range(4):
            random = np.random.RandomState(number)
            values = [random.normal(size=variable.shape) for variable in model.trainable_variables]
            optimizer.apply([keras.ops.convert_to_tensor(value, "float32") for value in values])
        found.update(weights(f"steps {name}", model))
    return found


def saved(folder):
    """Files of models after two epochs, and what they are after two more."""
    found = {}
    for name in ("lamb", "muon", "accumulated"):
        model = fit(compiled(OPTIMIZERS[name]()))
        model.save(os.path.join(folder, f"{keras.config.backend()} {name}.keras"))
        found.update(weights(f"whole {name}", fit(model)))
    return found


def continued(folder, backend):
    """The models that another backend has saved, after two epochs more."""
    found = {}
    for name in ("lamb", "muon", "accumulated"):
        model = keras.saving.load_model(os.path.join(folder, f"{backend} {name}.keras"))
        found.update(weights(f"whole {name}", fit(model)))
    return found


def refused():
    """The messages of what stays TensorFlow's."""
    made = {
        "Adasum": lambda: keras3.Adasum(keras.optimizers.Adam()),
        "LocalSteps": lambda: keras3.LocalSteps(keras.optimizers.Adam(), every=2),
        "Shampoo": lambda: keras3.Shampoo(0.1),
        "layer_statistics": lambda: keras3.LAMB(0.1, layer_statistics=True),
        "shard_updates": lambda: keras3.LAMB(0.1, shard_updates=True),
        "gradient_accumulation_steps": lambda: keras3.LAMB(0.1, gradient_accumulation_steps=2),
    }
    found = {}
    for name, make in made.items():
        try:
            make()
            found[f"refused/{name}"] = np.array("")
        except ValueError as error:
            found[f"refused/{name}"] = np.array(str(error))
    return found


def of_jax():
    """Steps without state under jax.jit, on one and four devices, and beside optax."""
    import jax
    import optax

    found = {}
    for name in ("lamb", "muon", "accumulated"):
        optimizer, model = OPTIMIZERS[name](), small_model()
        optimizer.build(model.trainable_variables)
        values = [variable.value for variable in model.trainable_variables]
        state = [variable.value for variable in optimizer.variables]
        step = jax.jit(optimizer.stateless_apply)
        for number in range(4):
            random = np.random.RandomState(number)
            gradients = [random.normal(size=value.shape).astype("float32") for value in values]
            values, state = step(state, gradients, values)
            optimizer.apply(gradients)
        found.update({f"stateless {name}/{index}": np.asarray(value) for index, value in enumerate(values)})
        found.update(weights(f"with state {name}", model))
    for devices in (1, 4):
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=jax.devices()[:devices]))
        found.update(weights(f"{devices} devices", fit(compiled(OPTIMIZERS["lamb"]()))))
        found.update(weights(f"{devices} devices muon", fit(compiled(OPTIMIZERS["muon"]()))))
    keras.distribution.set_distribution(None)
    pairs = {
        "lamb": (keras3.LAMB(0.02, weight_decay=0.1), optax.lamb(0.02, weight_decay=0.1)),
        "lars": (
            keras3.LARS(0.1, form="tfm", weight_decay=0.1),
            optax.lars(0.1, weight_decay=0.1, trust_coefficient=0.001),
        ),
        # Keras adds epsilon before the bias of the second moment is corrected, optax after it.
        "adamw": (
            keras3.AdamW(0.02, weight_decay=0.1, epsilon=1e-12),
            optax.adamw(0.02, weight_decay=0.1, eps=1e-12),
        ),
    }
    for name, (ours, theirs) in pairs.items():
        model = small_model()
        ours.build(model.trainable_variables)
        values = [variable.value for variable in model.trainable_variables]
        state = theirs.init(values)
        for number in range(4):
            random = np.random.RandomState(number)
            gradients = [random.normal(size=value.shape).astype("float32") for value in values]
            updates, state = theirs.update(gradients, state, values)
            values = optax.apply_updates(values, updates)
            ours.apply(gradients)
        found.update({f"optax {name}/{index}": np.asarray(value) for index, value in enumerate(values)})
        found.update(weights(f"beside optax {name}", model))
    return found


def main(folder, quick=""):
    backend = keras.config.backend()
    found = {**steps(), **refused()}
    # Keras itself imports it for files where it is installed.
    found["imported tensorflow"] = np.array("tensorflow" in sys.modules)
    if not quick:
        found.update({**results(), **saved(folder)})
        found.update(of_jax() if backend == "jax" else {})
        found.update({f"continued {name}": value for name, value in continued(folder, "tensorflow").items()})
    np.savez(os.path.join(folder, f"{backend}.npz"), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
