"""LSTM on the digits at batch 512 with LAMB.

    tfbigbatch train --config=experiments/digits/lstm_lamb.py --model_dir=runs/lamb

Two CPU cores, about 5 seconds. Measured: see docs/results/digits.md (`make results`).
Tuned at this batch over 10 rates x 2 warm-ups, seeds 100 to 102 (`tfbigbatch sweep`; results/tuning).
"""

from tfbigbatch.config import Config, variant_of


def get_config() -> Config:
    config = variant_of(__file__, "lstm_small_batch.py")
    config.batch_size = 512
    config.optimizer = {
        "name": "lamb",
        "weight_decay": 0.01,
        "exclude_from_weight_decay": ["bias"],
        "global_clipnorm": 1.0,
    }
    config.schedule.batch_size = 512
    config.schedule.learning_rate = 0.08
    config.schedule.warmup_epochs = 1.0
    return config
