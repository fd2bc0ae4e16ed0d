"""MNIST-LSTM of You et al. 2019 (arXiv:1901.08256): 128 units on the rows, batch 128, 25 epochs.

    python -m tfbigbatch.train --config=experiments/mnist/lstm_small_batch.py --model_dir=runs/mnist \\
      --data_dir=FOLDER_WITH_THE_FOUR_IDX_FILES

Without --data_dir, tf_keras.datasets downloads the files. Two CPU cores, about 5 minutes.
Measured, one seed: 99.03% test accuracy.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.new("mnist_lstm")

    config.model.hidden_units = 128
    config.model.projection_units = 128

    config.batch_size = 128
    config.duration = "25 epochs"
    config.optimizer = {"name": "momentum", "momentum": 0.9, "global_clipnorm": 1.0}
    config.schedule.batch_size = 128
    config.schedule.learning_rate = 0.1
    config.schedule.warmup_epochs = 0.0390625  # 2.5 epochs at batch 8,192
    config.schedule.decay = "linear"

    config.evaluation_batch_size = 1000
    config.evaluate_every = "1 epochs"
    config.checkpoint_every = "1 epochs"
    config.log_every = "50 steps"
    config.steps_per_execution = 10
    return config
