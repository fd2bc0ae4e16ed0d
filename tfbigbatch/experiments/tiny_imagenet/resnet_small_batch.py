"""A ResNet-18 of a quarter of the width on tiny-imagenet, batch 128, 60 epochs: the small batch of the sweep.

    tfbigbatch prepare-imagenet --source=TINY_IMAGENET --output_dir=data/tiny_imagenet_prepared
    tfbigbatch train --config=experiments/tiny_imagenet/resnet_small_batch.py \\
      --model_dir=runs/tiny_imagenet --data_dir=data/tiny_imagenet_prepared

One CPU core, about 10 minutes for 25,000 images of 50 classes. Expected: 44.0% (three seeds, 43.2 to 44.5).
"""

from tfbigbatch.config import Config, new_config


def get_config() -> Config:
    config = new_config("image_classification", model="resnet18")
    config.model.image_size = 32
    config.model.width = 16
    config.data.min_area = 0.25
    config.data.central_fraction = 1.0
    # No record was bad as it was prepared.
    config.data.max_bad_fraction = 0.0

    config.batch_size = 128
    config.duration = "60 epochs"
    # Momentum with L2 in the gradient is LARS without its adaptation; Keras' own decay is outside the momentum.
    config.optimizer = {
        "name": "lars",
        "momentum": 0.9,
        "nesterov": True,
        "weight_decay": 5e-4,
        "exclude_from_weight_decay": "norm_and_bias",
        "exclude_from_layer_adaptation": [".*"],
    }
    config.schedule.batch_size = 128
    config.schedule.learning_rate = 0.2
    # By LEGW 2.5 epochs at 2,048 and 5 at 4,096.
    config.schedule.warmup_epochs = 0.15625
    config.schedule.decay = "linear"

    config.evaluation_batch_size = 500
    config.evaluate_every = config.checkpoint_every = "4 epochs"
    config.log_every = "50 steps"
    return config
