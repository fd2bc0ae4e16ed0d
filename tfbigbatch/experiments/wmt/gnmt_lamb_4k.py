"""GNMT with LAMB at batch 4,096, by LEGW.

    python -m tfbigbatch.train --config=experiments/wmt/gnmt_lamb_4k.py --model_dir=runs/gnmt_lamb_4k \\
      --data_dir=data/wmt16_en_de

LAMB: You et al. 2020 (arXiv:1904.00962), which does not have GNMT: the rate, 0.002 at 256 and so 0.008 here, the decay
and the exclusions are ours, not tuned. All else is that of gnmt_legw_4k.py.
Hardware: 32 GPUs or TPU v3 chips, or fewer with accumulation_steps.
Expected: no figure is published; the aim is the BLEU of gnmt_legw_256.py. Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "gnmt_legw_4k.py")
    config.schedule.learning_rate = 0.002
    config.optimizer = {
        "name": "lamb",
        "weight_decay": 0.01,
        "exclude_from_weight_decay": "norm_and_bias",
        "global_clipnorm": 5.0,
    }
    return config
