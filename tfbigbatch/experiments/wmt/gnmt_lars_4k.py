"""GNMT with LARS at batch 4,096, by LEGW.

    python -m tfbigbatch.train --config=experiments/wmt/gnmt_lars_4k.py --model_dir=runs/gnmt_lars_4k \\
      --data_dir=data/wmt16_en_de

LARS: You et al. 2017 (arXiv:1708.03888), which does not have GNMT: the rate, 1 at 256 and so 4 here (a gradient then
moves a matrix by 0.004 of its norm), momentum and exclusions are ours, not tuned. All else is of gnmt_legw_4k.py.
Hardware: 32 GPUs or TPU v3 chips, or fewer with accumulation_steps.
Expected: no figure is published; the aim is the BLEU of gnmt_legw_256.py. Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "gnmt_legw_4k.py")
    config.schedule.learning_rate = 1.0
    config.optimizer = {
        "name": "lars",
        "momentum": 0.9,
        "weight_decay": 0.0,
        "exclude_from_weight_decay": "norm_and_bias",
    }
    return config
