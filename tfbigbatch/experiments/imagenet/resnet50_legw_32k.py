"""ResNet-50 with LARS at batch 32,768, 90 epochs, by LEGW: You et al. 2019 (arXiv:1901.08256).

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_legw_32k.py --model_dir=runs/resnet50_legw_32k \\
      --data_dir=data/imagenet_prepared

Hardware: 256 TPU v3 chips. The rule gives rate 32 and 10 epochs of warm-up; the authors took 14, as we do.
Expected: 76.75% top-1 (its authors' repository). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "resnet50_legw_1k.py")
    config.batch_size = 32768
    config.schedule.warmup_epochs = 14 / 64
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    return config
