"""The loss between two trained networks and around each: is the minimum of the large batch a sharper one?

    python examples/loss_landscape.py

About 30 seconds on two cores. A small network trains on scikit-learn's digits at a batch of 16 and at one of 512, from
the same weights. The script prints the loss along the line between the two solutions (Goodfellow et al. 2015,
arXiv:1412.6544), how far it rises on a plane around each, in directions with the norms of the filters (Li et al. 2018,
arXiv:1712.09913), and the largest eigenvalue of the Hessian; and draws loss_landscape.png.
"""

import argparse

import numpy as np
import tensorflow as tf
from matplotlib import pyplot
from sklearn.datasets import load_digits

import tfbigbatch
from tfbigbatch import instruments

SMALL, LARGE = 16, 512
images, labels = load_digits(return_X_y=True)
x, y = (images / 16).astype("float32"), labels
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def trained(batch_size, epochs):
    """A network after its training at a batch size."""
    tf.keras.utils.set_random_seed(0)
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((64,)), layers.Dense(32, "relu"), layers.Dense(10)])
    recipe = tfbigbatch.Recipe(SMALL, learning_rate=0.05, warmup_epochs=0.1, epochs=epochs, decay="linear")
    schedule = recipe.at(batch_size, rule="sqrt").schedule(dataset_size=len(x))
    model.compile(tf.keras.optimizers.SGD(schedule, momentum=0.9), loss_of)
    model.fit(x, y, batch_size=batch_size, epochs=epochs, verbose=0)
    return model


def losses_at(model, points):
    """The loss on all digits with each of several lists of weights; the model keeps its own."""
    kept, found = model.get_weights(), []
    for point in points:
        model.set_weights(point)
        found.append(float(loss_of(y, model(x))))
    model.set_weights(kept)
    return np.array(found)


def direction(weights, random):
    """A random direction: each filter of a kernel has the norm of the weights' filter, and biases do not move."""
    found = []
    for array in weights:
        drawn = random.normal(size=array.shape).astype(array.dtype) * (array.ndim > 1)
        axes = tuple(range(array.ndim - 1))
        own, other = (np.sqrt(np.sum(np.square(each), axis=axes, keepdims=True)) for each in (array, drawn))
        found.append(drawn * own / np.maximum(other, 1e-12))
    return found


def around(model, offsets):
    """The loss on a plane through the model's weights, [offsets, offsets]."""
    weights, random = model.get_weights(), np.random.RandomState(1)
    across, up = direction(weights, random), direction(weights, random)
    points = [[w + i * a + j * b for w, a, b in zip(weights, across, up)] for j in offsets for i in offsets]
    return losses_at(model, points).reshape(len(offsets), len(offsets))


def main(epochs, points):
    models = {size: trained(size, epochs) for size in (SMALL, LARGE)}
    figure, panels = pyplot.subplots(1, 3, figsize=(14, 4), constrained_layout=True)
    positions, offsets = np.linspace(-0.25, 1.25, points), np.linspace(-1.0, 1.0, points)
    start, end = (model.get_weights() for model in models.values())
    line = losses_at(models[SMALL], [[a + t * (b - a) for a, b in zip(start, end)] for t in positions])
    for position, loss in zip(positions, line):
        print(f"position {position:5.2f}: loss {loss:.4f}")
    panels[0].plot(positions, line)
    panels[0].set(xlabel=f"0 is batch {SMALL}, 1 is batch {LARGE}", ylabel="loss")
    for axes, (size, model) in zip(panels[1:], models.items()):
        plane = around(model, offsets)
        seen = instruments.Sharpness(probe=(x[:1024], y[:1024])).measure(model)
        eigenvalue = f"largest eigenvalue {seen['eigenvalue_1']:.3g}"
        print(f"batch {size}: loss {plane.min():.4f} to {plane.max():.3f} on the plane; {eigenvalue}")
        figure.colorbar(axes.contourf(offsets, offsets, np.log10(plane), levels=20), ax=axes)
        axes.set_title(f"batch {size}: log10 of the loss around it")
    figure.savefig("loss_landscape.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--points", type=int, default=13, help="on the line, and along each axis of a plane; odd")
    given = parser.parse_args()
    main(given.epochs, given.points)
