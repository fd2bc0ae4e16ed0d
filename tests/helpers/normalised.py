"""A user's own model, with batch normalisation and dropout: all replicas have the same statistics, each its masks."""

import numpy as np

from tfbigbatch import tasks
from tfbigbatch.config import new_config


def network():
    from keras import Sequential, layers

    return Sequential(
        [layers.Dense(16), layers.BatchNormalization(), layers.ReLU(), layers.Dropout(0.2), layers.Dense(1)]
    )


def data():
    features = np.random.RandomState(0).normal(size=(640, 8)).astype("float32")
    return features, features[:, :1] ** 2


tasks.define("normalised", network=network, data=data, loss="mse", metrics=["mae"])


def get_config():
    config = new_config("normalised")
    config.batch_size, config.duration, config.optimizer = 64, "600 steps", {"name": "lamb"}
    config.schedule.learning_rate, config.schedule.warmup_epochs = 0.01, 0.0
    config.log_every, config.checkpoint_every, config.evaluate_every = "5 steps", "50 steps", "200 steps"
    return config
