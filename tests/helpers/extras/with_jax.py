"""The extra `jax`: Keras 3 trains by Muon on JAX; optax, its peer there, is at hand."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
import optax

import tfbigbatch

model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
model.compile(tfbigbatch.Muon(0.1), "mse")
model.fit(np.ones((8, 4), np.float32), np.ones((8, 2), np.float32), verbose=0)
assert keras.backend.backend() == "jax" and optax.lamb(0.1)
