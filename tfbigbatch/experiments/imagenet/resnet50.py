"""ResNet-50 at batch 256, 90 epochs: the small-batch baseline of Goyal et al. 2017 (arXiv:1706.02677).

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50.py --model_dir=runs/resnet50 \\
      --data_dir=data/imagenet_prepared

    python tools/prepare_imagenet.py --source=FOLDER_WITH_THE_TWO_TARS --validation_labels=SYNSETS \\
      --output_dir=data/imagenet_prepared

Hardware: 8 GPUs, about a day (theirs: 29 hours on 8 P100). Expected: 76.4% top-1 (the paper's 23.60% error).
Not measured here: there is no ImageNet and no accelerator.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.new("image_classification", model="resnet50")

    config.batch_size = 256
    config.duration = "90 epochs"
    # Momentum with L2 in the gradient is LARS without its adaptation; Keras' own decay is outside the momentum.
    config.optimizer = {
        "name": "lars",
        "momentum": 0.9,
        "nesterov": True,
        "weight_decay": 1e-4,
        "exclude_from_weight_decay": "norm_and_bias",
        "exclude_from_layer_adaptation": [".*"],
    }
    config.schedule.batch_size = 256
    config.schedule.learning_rate = 0.1
    config.schedule.decay = "multi_step"
    config.schedule.factor = 0.1
    config.schedule.boundaries = ("30 epochs", "60 epochs", "80 epochs")

    config.mixed_precision = "bfloat16"
    config.evaluation_batch_size = 1024
    config.evaluate_every = "4 epochs"
    config.checkpoint_every = "1 epochs"
    config.log_every = "100 steps"
    config.steps_per_execution = 50
    # Bitwise repeatable kernels are slow, and missing for some, on accelerators.
    config.deterministic = False
    return config
