"""BERT-Large with LAMB at batch 512 to 65,536: You et al. 2020 (arXiv:1904.00962), table 1.

    tfbigbatch prepare-bert --source=WIKIPEDIA_AND_BOOKS --vocab_file=vocab.txt --max_seq_length=128 \\
      --max_predictions_per_seq=20 --output_dir=data/bert_prepared/128
    tfbigbatch prepare-bert --source=WIKIPEDIA_AND_BOOKS --vocab_file=vocab.txt --max_seq_length=512 \\
      --max_predictions_per_seq=76 --output_dir=data/bert_prepared/512
    tfbigbatch train --config=experiments/bert/lamb.py:32k --model_dir=runs/bert_lamb_32k \\
      --data_dir=data/bert_prepared

Expected after fine-tuning (the paper), not measured here:

| variant | batch | steps | SQuAD v1.1 F1 | hardware, time (theirs) |
|---|---:|---:|---:|---|
| 512 | 512 | 1,000,000 | 90.72 | 16 TPU v3 chips, 81.4 hours |
| 1k | 1,024 | 500,000 | 90.38 | 16 to 512 chips |
| 2k | 2,048 | 250,000 | 90.75 | 16 to 512 chips |
| 4k | 4,096 | 125,000 | 90.55 | 16 to 512 chips |
| 8k | 8,192 | 62,500 | 90.56 | 16 to 512 chips |
| 16k | 16,384 | 31,250 | 90.68 | 16 to 512 chips |
| 32k | 32,768 | 15,625 | 91.46 | 1,024 chips, 101 minutes |
| 64k_32k | 65,536, then 32,768 | 8,599 | 90.58 | 1,024 chips, 76.19 minutes |

Nine tenths of the steps are at length 128, the rest at 512. The paper does not give the learning rate at the change of
length; here it warms up again, as in its run of two batch sizes. With fewer chips: accumulation_steps.
"""

from tfbigbatch.config import Config, new_config, set_fields

VARIANTS = {
    "512": {},
    "1k": {"batch_size": 1024},
    "2k": {"batch_size": 2048},
    "4k": {"batch_size": 4096},
    "8k": {"batch_size": 8192},
    "16k": {"batch_size": 16384},
    "32k": {"batch_size": 32768},
    "64k_32k": {"evaluate_every": "500 steps", "checkpoint_every": "500 steps", "log_every": "20 steps"},
}


def get_config(variant: str = "512") -> Config:
    config = new_config("bert_pretraining", model="bert_large")
    # As published. "frequency" is the default of the task.
    config.model.output_bias = "zero"

    config.batch_size = 512
    config.optimizer = {
        "name": "lamb",
        "beta_1": 0.9,
        "beta_2": 0.999,
        "epsilon": 1e-6,
        "weight_decay": 0.01,
        "exclude_from_weight_decay": "norm_and_bias",
        "global_clipnorm": 1.0,
    }
    # LEGW is the paper's rule: learning rate 5 / (2^(k / 2) 10^3), where k is 6 here and one less at each doubling, and
    # a warm-up that takes a fraction of the run that doubles too (1/320 here).
    config.schedule.batch_size = 512
    config.schedule.learning_rate = 5 / 8 * 1e-3
    config.schedule.rule = "legw"
    config.schedule.warmup = "3125 steps"
    config.schedule.decay = "linear"
    config.phases = (
        {"duration": "460800000 examples", "data.folder": "128"},
        {"duration": "51200000 examples", "data.folder": "512", "schedule.warmup": "312 steps"},
    )

    config.mixed_precision = "bfloat16"
    config.evaluation_batch_size = 1024
    config.evaluate_every = config.checkpoint_every = "5000000 examples"
    config.log_every = "100 steps"
    # Bitwise repeatable kernels are slow, and missing for some, on accelerators.
    config.deterministic = False

    if variant == "64k_32k":
        first, second = config.phases
        config.phases = (
            {**first, "batch_size": 65536, "duration": "7037 steps"},
            {**second, "batch_size": 32768, "duration": "1562 steps"},
        )
    return set_fields(config, VARIANTS[variant])
