"""AlexNet with LARS at batch 4,096, 100 epochs: You et al. 2017 (arXiv:1708.03888).

    python -m tfbigbatch.train --config=experiments/imagenet/alexnet_lars_4k.py --model_dir=runs/alexnet_lars_4k \\
      --data_dir=data/imagenet_prepared

Hardware: 8 GPUs or TPU chips. The recipe of batch 8,192, carried down by LEGW. Expected: about 58% top-1, as at 512.
Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "alexnet_lars_8k.py")
    config.batch_size = 4096
    config.schedule.rule = "legw"
    return config
