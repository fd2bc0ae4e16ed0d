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
from tfbigbatch.optimizers.rule import AccumulationSchedule
from tfbigbatch.schedules.classes import in_phases

BATCH = 16
# Beside other libraries.
STEPS = 12
OPTIMIZERS = {
    "lars": lambda: keras3.LARS(0.5, weight_decay=1e-3, exclude_from_weight_decay="norm_and_bias", nesterov=True),
    "lars tfm": lambda: keras3.LARS(0.5, form="tfm", clipvalue=0.01),
    "lamb": lambda: keras3.LAMB(0.02, weight_decay=0.01, global_clipnorm=1.0, trust_ratio_bounds=(None, 2.0)),
    "nvlamb": lambda: keras3.LAMB(scheduled(), pre_normalize=True, bias_correction=False),
    "muon": lambda: keras3.Muon(0.02, normuon_beta=0.9, weight_decay=0.1),
    "muon in gram": lambda: keras3.Muon(
        0.02, newton_schulz={"coefficients": "polar_express"}, scale="trust_ratio", vectors="lamb"
    ),
    # Well damped: at first the statistics are of low rank, and the roots multiply rounding by their condition.
    "shampoo": lambda: keras3.Shampoo(
        0.002, block_size=8, root={"every": 2, "epsilon": 1e-3}, weight_decay=0.01, graft={"steps": 1}
    ),
    "shampoo by newton": lambda: keras3.Shampoo(0.02, graft="lamb", root={"method": "newton"}, vectors="adam"),
    "adamw": lambda: keras3.AdamW(0.01, clipnorm=0.5, amsgrad=True),
    "accumulated": lambda: keras3.LAMB(0.02, accumulation_steps=2, global_clipnorm=0.1),
    "growing": lambda: keras3.Muon(0.02, accumulation_steps=AccumulationSchedule([1, 3], [2, 1])),
    "averaged": lambda: keras3.LAMB(0.02, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=3),
}
# Of these, the ones for the test of saved files.
CONTINUED = ("lamb", "muon", "shampoo", "accumulated")


def scheduled():
    """LEGW's warm-up and a decay, by a recipe; and a second phase."""
    recipe = tfbigbatch.Recipe(batch_size=4, learning_rate=0.01, warmup_epochs=0.5, epochs=4, decay="cosine")
    first = recipe.at(BATCH, "legw").schedule(64, keras="keras3")
    second = tfbigbatch.schedules.build(0.01, warmup_steps=2, total_steps=4, keras="keras3")
    return in_phases([first, second], [4, 4], keras="keras3")


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
    """The weights after four steps of given gradients by LARS, LAMB and Muon.

    On JAX all but LARS step under jax.jit, as in `fit`: JAX compiles each operation of a step outside of it.
    """
    found = {}
    for name in ("lars", "lamb", "muon"):
        optimizer, model = OPTIMIZERS[name](), small_model()
        if keras.config.backend() == "jax" and name != "lars":
            optimizer.build(model.trainable_variables)
            values = steps_without_state(optimizer, model.trainable_variables)
            found.update({f"steps {name}/{index}": np.asarray(value) for index, value in enumerate(values)})
        else:
            found.update(weights(f"steps {name}", steps_with_state(optimizer, model)))
    return found


def steps_with_state(optimizer, model, count=4):
    """The model after so many steps of given gradients."""
    optimizer.build(model.trainable_variables)
    for number in range(count):
        gradients = gradients_of_step(number, [variable.shape for variable in model.trainable_variables])
        optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in gradients])
    return model


def steps_without_state(optimizer, variables):
    """The variables' values after the same steps, which change neither them nor the optimizer."""
    import jax

    values, state = ([each.value for each in group] for group in (variables, optimizer.variables))
    step = jax.jit(optimizer.stateless_apply)
    for number in range(4):
        values, state = step(state, gradients_of_step(number, [value.shape for value in values]), values)
    return values


def saved(folder):
    """Files of models after two epochs, and what they are after two more."""
    found = {}
    for name in CONTINUED:
        model = fit(compiled(OPTIMIZERS[name]()))
        model.save(os.path.join(folder, f"{keras.config.backend()} {name}.keras"))
        found.update(weights(f"whole {name}", fit(model)))
    return found


def continued(folder, backend):
    """The models that another backend has saved, after two epochs more."""
    found = {}
    for name in CONTINUED:
        model = keras.saving.load_model(os.path.join(folder, f"{backend} {name}.keras"))
        found.update(weights(f"whole {name}", fit(model)))
    return found


def refused():
    """The messages of what stays TensorFlow's."""
    made = {
        "Adasum": lambda: keras3.Adasum(keras.optimizers.Adam()),
        "LocalSteps": lambda: keras3.LocalSteps(keras.optimizers.Adam(), every=2),
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
    """Two epochs on one and four devices, where there are as many."""
    import jax

    found = {}
    for devices in (1, 4) if len(jax.devices()) >= 4 else ():
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=jax.devices()[:devices]))
        for name in ("lamb", "muon", "shampoo"):
            found.update(weights(f"{devices} devices {name}", fit(compiled(OPTIMIZERS[name]()))))
    keras.distribution.set_distribution(None)
    return found


def falling_rate():
    return keras.optimizers.schedules.PolynomialDecay(0.02, STEPS, 0.005)


def gradients_of_step(number, shapes):
    random = np.random.RandomState(number)
    return [random.normal(size=shape).astype("float32") for shape in shapes]


def of_torch():
    """Twelve steps at a falling learning rate, beside torch.optim's."""
    import unittest.mock

    import torch

    pairs = {
        "adamw": (
            keras3.AdamW(falling_rate(), weight_decay=0.1, epsilon=1e-12),
            lambda values: torch.optim.AdamW(values, lr=0.02, weight_decay=0.1, eps=1e-12),
        ),
    }
    # Of PyTorch 2.9 and later.
    if hasattr(torch.optim, "Muon"):
        for name, nesterov in (("muon", False), ("muon nesterov", True)):
            pairs[name] = (
                keras3.Muon(falling_rate(), nesterov=nesterov, weight_decay=0.1, exclude_from_weight_decay=[]),
                lambda values, nesterov=nesterov: torch.optim.Muon(
                    values, lr=0.02, nesterov=nesterov, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"
                ),
            )
    found = {}
    for name, (ours, make) in pairs.items():
        starts = [variable.value.detach().clone() for variable in small_model().trainable_variables]
        # Its Muon takes matrices alone.
        indices = [index for index, value in enumerate(starts) if value.ndim == 2 or name == "adamw"]
        values = [torch.nn.Parameter(starts[index]) for index in indices]
        other = make(values)
        for number in range(STEPS):
            gradients = gradients_of_step(number, [value.shape for value in starts])
            for index, value in zip(indices, values):
                value.grad = torch.as_tensor(gradients[index], device=value.device)
            other.param_groups[0]["lr"] = float(falling_rate()(number))
            # Its Newton-Schulz steps are of bfloat16; in float32 the formulas can be told apart.
            with unittest.mock.patch.object(torch.Tensor, "bfloat16", torch.Tensor.clone):
                other.step()
        found.update({f"optim {name}/{index}": each.detach().cpu().numpy() for index, each in zip(indices, values)})
        found.update(weights(f"beside optim {name}", steps_with_state(ours, small_model(), STEPS)))
    return found


def main(folder, quick=""):
    backend = keras.config.backend()
    found = {**steps(), **refused()}
    # Keras itself imports it for files where it is installed.
    found["imported tensorflow"] = np.array("tensorflow" in sys.modules)
    if not quick:
        found.update({**results(), **saved(folder)})
        found.update({"jax": of_jax, "torch": of_torch}[backend]())
        found.update({f"continued {name}": value for name, value in continued(folder, "tensorflow").items()})
    np.savez(os.path.join(folder, f"{backend}.npz"), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
