"""ResNet-50 with LARS at batch 2,048, 90 epochs, by LEGW: You et al. 2019 (arXiv:1901.08256).

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_legw_2k.py --model_dir=runs/resnet50_legw_2k \\
      --data_dir=data/imagenet_prepared

Hardware: 16 TPU v3 chips. The rule gives rate 8 and 0.625 epochs of warm-up.
Expected: about 77.1% top-1, as its neighbours (its authors' repository). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "resnet50_legw_1k.py")
    config.batch_size = 2048
    return config
