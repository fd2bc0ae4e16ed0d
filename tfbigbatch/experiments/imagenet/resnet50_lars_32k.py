"""ResNet-50 with LARS at batch 32,768, by MLPerf's rules.

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_lars_32k.py --model_dir=runs/resnet50_lars_32k \\
      --data_dir=data/imagenet_prepared

Hardware: 256 TPU v3 chips or more. Expected: 75.9% top-1 at epoch 56 (55 to 57 in ten runs: mlcommons/logging,
rcps_resnet.json of training 4.0.0, whose decay of 2,267 updates would end at epoch 74). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "resnet50_lars_4k.py")
    config.batch_size = config.schedule.batch_size = 32768
    config.duration = "2892 steps"
    config.schedule.learning_rate = 21.2
    config.schedule.warmup_epochs = 16.0
    config.optimizer.momentum = 0.94
    config.optimizer.weight_decay = 2.5e-5
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    return config
