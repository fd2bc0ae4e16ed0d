"""A Keras model of your own at 16 times its batch: what that costs, and which optimizer wins it back.

    python examples/own_model_16x.py              # three seeds, and the plot own_model_16x.png
    python examples/own_model_16x.py --seeds=6    # the table of docs/start.md
    python examples/own_model_16x.py --tune       # the trials that chose the learning rates

About a minute on two cores. It prints the accuracy on held-out digits after 10 epochs: 450 steps at a
batch of 32, 30 steps at 512. Over six seeds the recipe of 32 loses 11 points at 512, tuned Nesterov momentum 4, Muon 1.
"""

import argparse
import dataclasses
import math
import statistics
from functools import partial

import matplotlib.pyplot as plt
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tfbigbatch

images, labels = load_digits(return_X_y=True)
x, x_test, y, y_test = train_test_split(images / 16, labels, test_size=360, random_state=0)


def train(make_optimizer, recipe, seed=0, data=(x, y, x_test, y_test)):
    """Trains a new model; returns its accuracy on the held-out images after each epoch."""
    x, y, *held_out = data
    tf.keras.utils.set_random_seed(seed)
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input((64,)), layers.Dense(64, "relu"), layers.Dense(64, "relu"), layers.Dense(10, "softmax")]
    )
    optimizer = make_optimizer(recipe.schedule(dataset_size=len(x)))
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    options = {"batch_size": recipe.batch_size, "epochs": int(recipe.epochs), "verbose": 0}
    return model.fit(x, y, validation_data=held_out, **options).history["val_accuracy"]


tuned = tfbigbatch.Recipe(batch_size=32, learning_rate=0.1, warmup_epochs=0.0625, epochs=10, decay="linear")
naive = tuned.at(512, rule="none")
legw = tuned.at(512, rule="legw")


def at_512(learning_rate):
    """A recipe tuned at the large batch itself: its own learning rate, and LEGW's warm-up of one epoch."""
    return dataclasses.replace(legw, learning_rate=learning_rate)


momentum = partial(tf.keras.optimizers.SGD, momentum=0.9)
RUNS = {
    "momentum": (momentum, tuned),
    "momentum, the recipe of 32": (momentum, naive),
    "momentum, LEGW": (momentum, legw),
    "Nesterov momentum, tuned": (partial(momentum, nesterov=True), at_512(0.2)),
    "AdamW, tuned": (partial(tf.keras.optimizers.AdamW, weight_decay=0.01), at_512(0.04)),
    "LAMB, tuned": (partial(tfbigbatch.LAMB, weight_decay=0.01), at_512(0.1)),
    "Muon, tuned": (tfbigbatch.Muon, at_512(0.2)),
}


def tune():
    """Prints the accuracy of the tuned rows at five learning rates, on a fifth of the training images; three seeds."""
    x_less, x_valid, y_less, y_valid = train_test_split(x, y, test_size=287, random_state=0)
    for name, (make, recipe) in RUNS.items():
        for factor in (1 / 4, 1 / 2, 1, 2, 4) if recipe not in (naive, legw) else ():
            trial = dataclasses.replace(recipe, learning_rate=factor * recipe.learning_rate)
            ends = [train(make, trial, seed, (x_less, y_less, x_valid, y_valid))[-1] for seed in (100, 101, 102)]
            print(f"{name:<28}{trial.learning_rate:>8.3g}{statistics.mean(ends):>8.1%}", flush=True)


def main(seeds, smoke):
    runs = {"Muon": (tfbigbatch.Muon, dataclasses.replace(naive, epochs=1))} if smoke else RUNS
    for name, (make, recipe) in runs.items():
        curves = [train(make, recipe, seed) for seed in range(seeds)]
        ends, steps = [curve[-1] for curve in curves], math.ceil(len(x) / recipe.batch_size) * int(recipe.epochs)
        spread = f" ± {statistics.stdev(ends):.1%}" if seeds > 1 else ""
        print(f"{name:<28}{recipe.batch_size:>5}{steps:>5} steps{statistics.mean(ends):>8.1%}{spread}", flush=True)
        means = [statistics.mean(each) for each in zip(*curves)]
        plt.plot(range(1, 1 + len(means)), means, label=f"{name}, batch {recipe.batch_size}")
    plt.gca().set(xlabel="epoch", ylabel="accuracy on held-out digits", ylim=(0.4, 1))
    plt.legend()
    plt.savefig("own_model_16x.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each row")
    parser.add_argument("--tune", action="store_true", help="try learning rates, in place of the table")
    parser.add_argument("--smoke", action="store_true", help="one epoch of one row: whether it works here")
    arguments = parser.parse_args()
    tune() if arguments.tune else main(1 if arguments.smoke else arguments.seeds, arguments.smoke)
