"""ResNet-50 with LARS at batch 16,384, by MLPerf's rules.

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_lars_16k.py --model_dir=runs/resnet50_lars_16k \\
      --data_dir=data/imagenet_prepared

Hardware: 128 TPU v3 chips. The recipe of a public MLPerf 0.7 submission in JAX; MLPerf has no reference point at this
batch (the nearest, at 13,056, needs 45 epochs). Expected: 75.9% top-1 within the 56 epochs. Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "resnet50_lars_4k.py")
    config.batch_size = config.schedule.batch_size = 16384
    config.duration = "56 epochs"
    config.schedule.learning_rate = 25.0
    config.schedule.warmup_epochs = 5.0
    config.optimizer.momentum = 0.9
    config.optimizer.weight_decay = 2e-4
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    return config
