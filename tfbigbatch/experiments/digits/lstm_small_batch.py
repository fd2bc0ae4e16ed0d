"""LSTM on scikit-learn's digits, the tuned small batch (32) that the other experiments start from.

    tfbigbatch train --config=experiments/digits/lstm_small_batch.py --model_dir=runs/small_batch

Two CPU cores, about 10 seconds. Measured: see docs/results/digits.md (`make results`).
Tuned over 10 rates x 2 warm-ups, seeds 100 to 102 (`tfbigbatch sweep`; results/tuning).
"""

from tfbigbatch.config import Config, new_config


def get_config() -> Config:
    config = new_config("digits_lstm")

    config.model.hidden_units = 64

    config.batch_size = 32
    config.duration = "40 epochs"
    config.optimizer = {"name": "momentum", "momentum": 0.9, "global_clipnorm": 1.0}
    config.schedule.batch_size = 32
    config.schedule.learning_rate = 0.3
    config.schedule.warmup_epochs = 0.0625  # 3 updates; 1 epoch at batch 512
    config.schedule.decay = "linear"

    config.evaluate_every = "1 epochs"
    config.checkpoint_every = "10 epochs"
    config.log_every = "10 steps"
    return config
