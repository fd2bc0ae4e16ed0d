"""GNMT with Adam at batch 4,096, the recipe of 256 carried by LEGW: You et al. 2019 (arXiv:1901.08256).

    python -m tfbigbatch.train --config=experiments/wmt/gnmt_legw_4k.py --model_dir=runs/gnmt_legw_4k \\
      --data_dir=data/wmt16_en_de

The rule is the paper's, the recipe at 256 ours: see gnmt_legw_256.py. It gives rate 0.004, and 16 times the epochs of
warm-up: 200 updates again. Hardware: 32 GPUs or TPU v3 chips, or fewer with accumulation_steps.
Expected: the BLEU of gnmt_legw_256.py (what the paper claims up to 4,096). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "gnmt_legw_256.py")
    config.batch_size = 4096
    return config
