"""ResNet-50 with LAMB at batch 16,384, 90 epochs: You et al. 2020 (arXiv:1904.00962).

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_lamb_16k.py --model_dir=runs/resnet50_lamb_16k \\
      --data_dir=data/imagenet_prepared

Hardware: 128 TPU v3 chips or more. The recipe of batch 32,768, carried down by LEGW: rate 0.028, 10 epochs of warm-up.
Expected: 76.3% top-1 or more (the paper's at 32K). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "resnet50_lamb_32k.py")
    config.batch_size = 16384
    config.duration = "7038 steps"
    config.schedule.rule = "legw"
    return config
