"""AlexNet at batch 512, 100 epochs: the baseline of You et al. 2017 (arXiv:1708.03888).

    python -m tfbigbatch.train --config=experiments/imagenet/alexnet_512.py --model_dir=runs/alexnet_512 \\
      --data_dir=data/imagenet_prepared

Hardware: one GPU, a day or two. Expected: about 58% top-1 (theirs with crops of one size; ours are Inception's).
Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.new("image_classification", model="alexnet")

    config.model.image_size = 227
    config.batch_size = 512
    config.duration = "100 epochs"
    # Momentum with L2 in the gradient is LARS without its adaptation; Keras' own decay is outside the momentum.
    config.optimizer = {
        "name": "lars",
        "momentum": 0.9,
        "weight_decay": 5e-4,
        "exclude_from_weight_decay": "norm_and_bias",
        "exclude_from_layer_adaptation": [".*"],
    }
    config.schedule.batch_size = 512
    config.schedule.learning_rate = 0.02
    config.schedule.decay = "polynomial"
    config.schedule.power = 2.0

    config.mixed_precision = "bfloat16"
    config.evaluation_batch_size = 1024
    config.evaluate_every = "5 epochs"
    config.checkpoint_every = "1 epochs"
    config.log_every = "100 steps"
    config.steps_per_execution = 50
    # Bitwise repeatable kernels are slow, and missing for some, on accelerators.
    config.deterministic = False
    return config
