"""LSTM on the digits at batch 512, the small batch's recipe carried by LEGW: learning rate x4, warm-up x16.

    tfbigbatch train --config=experiments/digits/lstm_legw.py --model_dir=runs/legw

Two CPU cores, about 5 seconds. Measured: see docs/results/digits.md (`make results`).
The rule: You et al. 2019, arXiv:1901.08256. Nothing was tuned at this batch size.
"""

from tfbigbatch.config import Config, variant_of


def get_config() -> Config:
    config = variant_of(__file__, "lstm_small_batch.py")
    config.batch_size = 512
    config.schedule.rule = "legw"
    return config
