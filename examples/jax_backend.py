"""Keras 3 on JAX: Muon in `fit`, and LAMB in a training step of your own under `jax.jit`.

    python examples/jax_backend.py

About 10 seconds on two cores; needs `pip install jax`. A small network trains on scikit-learn's digits at a batch of
256. tfbigbatch does not import TensorFlow for it; Keras itself may, in `fit`, where it is installed. It prints the
accuracy of both on held-out digits.
"""

import argparse
import os
import sys

# Keras chooses its backend when it is imported.
os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tfbigbatch

BATCH = 256
images, labels = load_digits(return_X_y=True)
x, x_test, y, y_test = train_test_split((images / 16).astype("float32"), labels, test_size=360, random_state=0)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def new_model():
    keras.utils.set_random_seed(0)
    layers = keras.layers
    return keras.Sequential([layers.Input((64,)), layers.Dense(64, "relu"), layers.Dense(10)])


def schedule(learning_rate, epochs):
    recipe = tfbigbatch.Recipe(BATCH, learning_rate, warmup_epochs=0.5, epochs=epochs, decay="linear")
    return recipe.schedule(dataset_size=len(x))


def in_fit(epochs):
    model = new_model()
    model.compile(tfbigbatch.Muon(schedule(0.1, epochs)), loss_of, metrics=["accuracy"])
    model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=0)
    return model.evaluate(x_test, y_test, verbose=0)[1]


def in_a_step_of_your_own(epochs):
    model, optimizer = new_model(), tfbigbatch.LAMB(schedule(0.05, epochs), weight_decay=0.01)
    optimizer.build(model.trainable_variables)

    def loss(weights, x, y):
        logits, _ = model.stateless_call(weights, [], x)
        return loss_of(y, logits)

    @jax.jit
    def step(weights, state, x, y):
        gradients = jax.grad(loss)(weights, x, y)
        return optimizer.stateless_apply(state, gradients, weights)

    weights = [variable.value for variable in model.trainable_variables]
    state = [variable.value for variable in optimizer.variables]
    random = np.random.RandomState(0)
    for _ in range(epochs):
        order = random.permutation(len(x))
        for first in range(0, len(x) - BATCH + 1, BATCH):
            batch = order[first : first + BATCH]
            weights, state = step(weights, state, x[batch], y[batch])
    logits, _ = model.stateless_call(weights, [], x_test)
    return float(np.mean(np.argmax(logits, axis=1) == y_test))


def main(epochs):
    # Keras itself may import it in `fit`, where it is installed.
    print(f"backend {keras.config.backend()}, TensorFlow imported: {'tensorflow' in sys.modules}")
    print(f"Muon in fit              {in_fit(epochs):.1%}")
    print(f"LAMB in a step of yours  {in_a_step_of_your_own(epochs):.1%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=20)
    main(parser.parse_args().epochs)
