"""LSTM on the digits, the naive large batch: 512 in place of 32, all else as it was.

    tfbigbatch train --config=experiments/digits/lstm_naive.py --model_dir=runs/naive

Two CPU cores, about 5 seconds. Measured: see docs/results/digits.md (`make results`).
"""

from tfbigbatch.config import Config, variant_of


def get_config() -> Config:
    config = variant_of(__file__, "lstm_small_batch.py")
    config.batch_size = 512
    config.schedule.rule = "none"
    return config
