"""BERT-Large with AdamW at batch 512: the baseline of You et al. 2020 (arXiv:1904.00962).

    tfbigbatch train --config=experiments/bert/adamw.py --model_dir=runs/bert_adamw_512 \\
      --data_dir=data/bert_prepared

Hardware: 16 TPU v3 chips, 81.4 hours (theirs). Learning rate and warm-up are those of BERT's authors (1e-4, 10,000
steps at batch 256).
Expected: SQuAD v1.1 F1 90.40 after fine-tuning (the paper's baseline). Not measured here.
"""

from tfbigbatch.config import Config, variant_of


def get_config() -> Config:
    config = variant_of(__file__, "lamb.py:512")
    config.optimizer = {
        "name": "adamw",
        "epsilon": 1e-6,
        "weight_decay": 0.01,
        "exclude_from_weight_decay": "norm_and_bias",
        "global_clipnorm": 1.0,
    }
    config.schedule.learning_rate = 1e-4
    config.schedule.warmup = "10000 steps"
    first, second = config.phases
    config.phases = (first, {**second, "schedule.warmup": "1000 steps"})
    return config
