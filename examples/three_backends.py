"""The same small network by LAMB and LEGW on TensorFlow, JAX and PyTorch, and one table.

    python examples/three_backends.py

Needs scikit-learn for its digits, and of the backends those that are installed. Each is a process of its own: Keras
chooses its backend when it is imported. About half a minute each on one core.
"""

import importlib.util
import os
import subprocess
import sys

BACKENDS = ("tensorflow", "jax", "torch")
# The recipe as it was tuned at a batch of 32, and the batch that it is scaled to.
BATCH, LARGE, EPOCHS = 32, 256, 20


def train():
    """Trains on this process' backend; prints the accuracy on held-out digits."""
    import keras
    import numpy as np
    from sklearn.datasets import load_digits

    import tfbigbatch

    keras.utils.set_random_seed(0)
    digits = load_digits()
    x, y = (digits.images / 16.0).astype("float32"), digits.target.astype("int32")
    order = np.random.RandomState(0).permutation(len(x))
    train, test = order[360:], order[:360]
    model = keras.Sequential(
        [
            keras.layers.Input((8, 8)),
            keras.layers.LSTM(32),
            keras.layers.Dense(10),
        ]
    )
    random = np.random.RandomState(1)
    model.set_weights([random.normal(scale=0.2, size=weight.shape) for weight in model.get_weights()])
    recipe = tfbigbatch.Recipe(batch_size=BATCH, learning_rate=0.01, warmup_epochs=0.1, epochs=EPOCHS, decay="linear")
    scaled = recipe.at(LARGE, "legw")
    model.compile(
        optimizer=tfbigbatch.LAMB(scaled.schedule(len(train)), weight_decay=0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(x[train], y[train], batch_size=LARGE, epochs=EPOCHS, shuffle=False, verbose=0)
    _, accuracy = model.evaluate(x[test], y[test], batch_size=LARGE, verbose=0)
    print(f"{keras.config.backend()} {accuracy:.4f}")


def main():
    print(f"{'backend':<12}{'accuracy':>10}")
    for backend in BACKENDS:
        if importlib.util.find_spec(backend) is None:
            print(f"{backend:<12}{'not installed':>10}")
            continue
        environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        outcome = subprocess.run(
            [sys.executable, "-W", "ignore", __file__, "--train"], env=environment, capture_output=True, text=True
        )
        if outcome.returncode:
            raise SystemExit(f"{backend}: the training failed:\n{outcome.stderr[-2000:]}")
        name, accuracy = outcome.stdout.split()[-2:]
        print(f"{name:<12}{float(accuracy):>10.1%}", flush=True)


if __name__ == "__main__":
    train() if sys.argv[1:] == ["--train"] else main()
