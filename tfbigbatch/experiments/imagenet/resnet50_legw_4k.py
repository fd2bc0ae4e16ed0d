"""ResNet-50 with LARS at batch 4,096, 90 epochs, by LEGW: You et al. 2019 (arXiv:1901.08256).

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_legw_4k.py --model_dir=runs/resnet50_legw_4k \\
      --data_dir=data/imagenet_prepared

Hardware: 32 TPU v3 chips. The rule gives rate 11.31 and 1.25 epochs of warm-up.
Expected: 77.38% top-1 (its authors' repository). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "resnet50_legw_1k.py")
    config.batch_size = 4096
    return config
