"""ResNet-50-v2 with LARS at batch 32,768: Ying et al. 2018 (arXiv:1811.06992).

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_v2_32k.py --model_dir=runs/resnet50_v2_32k \\
      --data_dir=data/imagenet_prepared

Hardware: 1,024 TPU v3 chips, 2.2 minutes (theirs). Expected: 76.3% top-1 (the paper). Rate, warm-up and momentum are
those of a public MLPerf 0.7 submission at this batch. Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.new("image_classification", model="resnet50_v2")

    config.model.label_smoothing = 0.1
    config.batch_size = 32768
    config.duration = "64 epochs"
    config.optimizer = {
        "name": "lars",
        "momentum": 0.929,
        "weight_decay": 1e-4,
        "exclude_from_weight_decay": "norm_and_bias",
    }
    config.schedule.batch_size = 32768
    config.schedule.learning_rate = 29.0
    config.schedule.warmup_epochs = 18.0
    config.schedule.decay = "mlperf_lars"

    config.mixed_precision = "bfloat16"
    config.evaluation_batch_size = 8192
    config.evaluate_every = "4 epochs"
    config.checkpoint_every = "4 epochs"
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    # Bitwise repeatable kernels are slow, and missing for some, on accelerators.
    config.deterministic = False
    return config
