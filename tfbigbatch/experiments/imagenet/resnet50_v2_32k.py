"""ResNet-50-v2 with LARS at batch 32,768: Ying et al. 2018 (arXiv:1811.06992).

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_v2_32k.py --model_dir=runs/resnet50_v2_32k \\
      --data_dir=data/imagenet_prepared

Hardware: 1,024 TPU v3 chips, 2.2 minutes (theirs). Expected: 76.3% top-1 (the paper). Rate, warm-up and momentum are
those of a public MLPerf 0.7 submission at this batch. Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "resnet50_lars_4k.py")
    config.model.name = "resnet50_v2"
    config.batch_size = config.schedule.batch_size = 32768
    config.duration = "64 epochs"
    config.schedule.learning_rate = 29.0
    config.schedule.warmup_epochs = 18.0
    config.stop_at_target = 0.0
    config.optimizer.momentum = 0.929
    config.optimizer.weight_decay = 1e-4
    config.evaluation_batch_size = 8192
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    return config
