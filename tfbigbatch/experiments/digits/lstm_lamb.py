"""LSTM on the digits at batch 512 with LAMB.

    tfbigbatch train --config=experiments/digits/lstm_lamb.py --model_dir=runs/lamb

Two CPU cores, about 5 seconds. Measured: see docs/results/digits.md (`make results`).
Tuned at this batch over 10 rates x 2 warm-ups, seeds 100 to 102 (`tfbigbatch study`; results/tuning).
"""

from tfbigbatch import experiment


def get_config() -> experiment.Config:
    config = experiment.variant_of(__file__, "lstm_small_batch.py")
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
