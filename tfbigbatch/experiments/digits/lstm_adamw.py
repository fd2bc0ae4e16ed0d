"""LSTM on the digits at batch 512 with AdamW tuned there: a baseline that LAMB must face.

    tfbigbatch train --config=experiments/digits/lstm_adamw.py --model_dir=runs/adamw

Two CPU cores, about 5 seconds. Measured: see docs/results/digits.md (`make results`).
Tuned at this batch over 10 rates x 2 warm-ups, seeds 100 to 102 (`tfbigbatch sweep`; results/tuning).
"""

from tfbigbatch.config import Config, variant_of


def get_config() -> Config:
    config = variant_of(__file__, "lstm_small_batch.py")
    config.batch_size = 512
    config.optimizer = {"name": "adamw", "weight_decay": 0.01, "global_clipnorm": 1.0}
    config.schedule.batch_size = 512
    config.schedule.learning_rate = 0.16
    config.schedule.warmup_epochs = 5.0
    return config
