"""ResNet-50 with LARS at batch 65,536, by MLPerf's rules.

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_lars_64k.py --model_dir=runs/resnet50_lars_64k \\
      --data_dir=data/imagenet_prepared

Hardware: a TPU v3-512 slice or more (theirs). Expected: 75.9% top-1 at epoch 84.5 (83 to 86 in ten runs:
mlcommons/logging, rcps_resnet.json of training 4.0.0). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "resnet50_lars_4k.py")
    config.batch_size = config.schedule.batch_size = 65536
    config.duration = "89 epochs"
    config.schedule.learning_rate = 24.699
    config.schedule.warmup_epochs = 31.0
    config.optimizer.momentum = 0.951807
    config.optimizer.weight_decay = 1e-4
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    return config
