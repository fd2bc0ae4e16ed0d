"""AlexNet-BN with LARS at batch 4,096, 100 epochs: You et al. 2017 (arXiv:1708.03888).

    python -m tfbigbatch.train --config=experiments/imagenet/alexnet_bn_lars_4k.py \\
      --model_dir=runs/alexnet_bn_lars_4k --data_dir=data/imagenet_prepared

Hardware: 8 GPUs or TPU chips. Expected: 60.4% top-1 (the paper). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "alexnet_bn_512.py")
    config.batch_size = config.schedule.batch_size = 4096
    config.schedule.learning_rate = 10.0
    config.schedule.warmup_epochs = 2.0
    # None: adapted wherever it decays.
    config.optimizer.exclude_from_layer_adaptation = None
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    return config
