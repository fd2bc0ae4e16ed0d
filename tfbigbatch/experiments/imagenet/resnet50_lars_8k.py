"""ResNet-50 with LARS at batch 8,192, by MLPerf's rules.

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_lars_8k.py --model_dir=runs/resnet50_lars_8k \\
      --data_dir=data/imagenet_prepared

Hardware: a TPU v4-128 slice (theirs), minutes. Expected: 75.9% top-1 at epoch 42 (41 to 44 in ten runs:
mlcommons/logging, rcps_resnet.json of training 4.0.0). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "resnet50_lars_4k.py")
    config.batch_size = config.schedule.batch_size = 8192
    config.duration = "44 epochs"
    config.schedule.learning_rate = 17.0
    config.schedule.warmup_epochs = 5.0
    config.optimizer.momentum = 0.9
    config.optimizer.weight_decay = 2e-4
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    return config
