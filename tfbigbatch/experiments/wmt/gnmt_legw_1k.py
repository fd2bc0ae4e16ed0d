"""GNMT with Adam at batch 1,024, the recipe of 256 carried by LEGW: You et al. 2019 (arXiv:1901.08256).

    python -m tfbigbatch.train --config=experiments/wmt/gnmt_legw_1k.py --model_dir=runs/gnmt_legw_1k \\
      --data_dir=data/wmt16_en_de

The rule is the paper's, the recipe at 256 ours: see gnmt_legw_256.py. It gives rate 0.002, and 4 times the epochs of
warm-up: 200 updates again. Hardware: 8 GPUs or TPU v3 chips, or fewer with accumulation_steps.
Expected: the BLEU of gnmt_legw_256.py (what the paper claims up to 4,096). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "gnmt_legw_256.py")
    config.batch_size = 1024
    return config
