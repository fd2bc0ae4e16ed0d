"""The critical batch of a model in plain Keras: up to which batch size do equal examples give an equal loss?

    python examples/critical_batch.py

About 40 seconds on two cores. A small network trains on scikit-learn's digits at a batch of 16 for one epoch. From its
weights short branches of three epochs each train at 16 to 512, with the learning rate scaled by the square root.
It prints the loss of each batch size on held-out digits, the critical batch with its 90% interval, and the gradient
noise scale, which predicts it from gradients alone. `tfbigbatch critical-batch` measures it on the trainer's runs.
"""

import argparse
import math

import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tfbigbatch
from tfbigbatch import instruments
from tfbigbatch.scaling.critical_batch import critical_batch

SIZES, SEEDS = (16, 32, 64, 128, 256, 512), (0, 1, 2, 3)
SMALL, LEARNING_RATE, EPOCHS = 16, 0.05, 3
# What a branch may lose, in nats.
TOLERANCE = 0.03

images, labels = load_digits(return_X_y=True)
x, x_test, y, y_test = train_test_split(images / 16, labels, test_size=360, random_state=0)


def compiled(recipe):
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((64,)), layers.Dense(64, "relu"), layers.Dense(10)])
    optimizer = tf.keras.optimizers.SGD(recipe.schedule(dataset_size=len(x)), momentum=0.9)
    model.compile(optimizer, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def branch(recipe, start, seed):
    """The held-out loss after a training that begins with the weights `start`."""
    model = compiled(recipe)
    model.set_weights(start)
    # The seed orders the examples, the same for each batch size.
    tf.keras.utils.set_random_seed(seed)
    model.fit(x, y, batch_size=recipe.batch_size, epochs=int(recipe.epochs), verbose=0)
    return model.evaluate(x_test, y_test, batch_size=360, verbose=0)


def main(sizes, seeds):
    tf.keras.utils.set_random_seed(0)
    model = compiled(tfbigbatch.Recipe(batch_size=SMALL, learning_rate=LEARNING_RATE))
    model.fit(x, y, batch_size=SMALL, epochs=1, verbose=0)
    start = model.get_weights()
    noise = instruments.GradientNoiseScale(probe=(x[:1024], y[:1024]), micro_batches=16).measure(model)

    # A decay to zero, so that the noise of the last steps does not decide.
    small = tfbigbatch.Recipe(batch_size=SMALL, learning_rate=LEARNING_RATE, epochs=EPOCHS, decay="linear")
    losses = {size: [branch(small.at(size, rule="sqrt"), start, seed) for seed in seeds] for size in sizes}
    found = critical_batch(losses, tolerance=TOLERANCE)
    for size in sizes:
        print(f"batch {size:>4}: held-out loss {sum(losses[size]) / len(seeds):.3f} ({found.excess[size]:+.3f})")
    estimate, low, high = (
        f"> {max(sizes)}" if math.isinf(each) else f"{each:.0f}" for each in (found.estimate, found.low, found.high)
    )
    print(f"critical batch {estimate} ({low} to {high}) at a tolerance of {TOLERANCE} nats")
    print(f"gradient noise scale {noise['critical_batch_size']:.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="two batch sizes and one seed: whether it works here")
    smoke = parser.parse_args().smoke
    main(SIZES[-2:] if smoke else SIZES, SEEDS[:1] if smoke else SEEDS)
