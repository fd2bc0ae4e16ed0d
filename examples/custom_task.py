"""A task of your own, run by the trainer: checkpoints, resume, evaluation, and the trained network.

    python examples/custom_task.py

About 15 seconds on two cores. The task is a classifier of tumours (scikit-learn's breast cancer data, 569 rows of 30
measurements), with a metric of its own. The run is stopped half way, as by a kill, and resumed by the same call; then
its best network is loaded and used. The file is an experiment file as well, for every command:

    tfbigbatch train --config=examples/custom_task.py --model_dir=runs/tumours
    tfbigbatch report runs/tumours
"""

import argparse
import os
import tempfile

from tfbigbatch import tasks
from tfbigbatch.config import new_config


def network(width=32):
    """The model: its argument is a field of the config, `--config.model.width=64`."""
    from keras import Sequential, layers

    return Sequential([layers.Dense(width, "relu"), layers.Dropout(0.2), layers.Dense(2)])


def data():
    """The splits, as arrays."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    rows, labels = load_breast_cancer(return_X_y=True)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    x, x_valid, y, y_valid = train_test_split(rows, labels, test_size=0.3, random_state=0)
    return {"train": (x, y), "validation": (x_valid, y_valid)}


def confident(labels, logits):
    """For each example, whether the right class has a probability above 0.9."""
    import tensorflow as tf

    return tf.gather(tf.nn.softmax(logits), tf.cast(labels, tf.int32), batch_dims=1) > 0.9


tasks.define("tumours", network=network, data=data, metrics=["accuracy", confident])


def get_config():
    config = new_config("tumours")
    config.optimizer = {"name": "lamb", "weight_decay": 0.01}
    # Tuned at a batch of 16; LEGW carries it to 128.
    config.batch_size, config.duration = 128, "20 epochs"
    config.schedule.batch_size, config.schedule.learning_rate, config.schedule.rule = 16, 0.01, "legw"
    config.schedule.warmup_epochs = 0.125
    config.evaluate_every, config.checkpoint_every = "5 epochs", "5 epochs"
    return config


def main(duration):
    import tfbigbatch
    from tfbigbatch import train

    config = get_config()
    config.duration = duration
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "tumours")
        stopped = train.run(config, model_dir=run, stop_after=4)
        print(f"stopped at step {stopped['step']} of {stopped['total_steps']}")
        done = train.run(config, model_dir=run)
        print(f"done: accuracy {done['metrics']['accuracy']:.1%}, confident {done['metrics']['confident']:.1%}")
        trained = tfbigbatch.load_run(run)
        x, y = data()["validation"]
        right = trained.network(x[:10].astype("float32")).numpy().argmax(axis=1) == y[:10]
        print(f"the loaded network has {right.sum()} of ten right")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--duration", default="20 epochs")
    main(parser.parse_args().duration)
