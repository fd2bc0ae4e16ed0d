"""ResNet-50 with LARS at batch 16,384, 90 epochs, by LEGW: You et al. 2019 (arXiv:1901.08256).

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_legw_16k.py --model_dir=runs/resnet50_legw_16k \\
      --data_dir=data/imagenet_prepared

Hardware: 128 TPU v3 chips. The rule gives rate 22.63 and 5 epochs of warm-up.
Expected: 76.96% top-1 (its authors' repository). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "resnet50_legw_1k.py")
    config.batch_size = 16384
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    return config
