"""ResNet-50 at batch 8,192 by the linear rule and five epochs of warm-up: Goyal et al. 2017 (arXiv:1706.02677).

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_8k.py --model_dir=runs/resnet50_8k \\
      --data_dir=data/imagenet_prepared

Hardware: 256 GPUs, an hour (theirs, P100). Expected: 76.26% top-1 (the paper's 23.74% error). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "resnet50.py")
    config.batch_size = 8192
    # 0.1 at 256 becomes 3.2.
    config.schedule.rule = "linear"
    config.schedule.warmup_epochs = 5.0
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    return config
