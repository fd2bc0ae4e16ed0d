"""An AlexNet-BN of a quarter of the width on tiny-imagenet, batch 128, 20 epochs: the small batch of its sweep.

    tfbigbatch prepare-imagenet --source=TINY_IMAGENET --output_dir=data/tiny_imagenet_prepared
    tfbigbatch train --config=experiments/tiny_imagenet/alexnet_bn_small_batch.py \\
      --model_dir=runs/tiny_imagenet_alexnet --data_dir=data/tiny_imagenet_prepared

One CPU core, about 4 minutes for 25,000 images of 50 classes. Expected: 34.9% (one seed).
"""

from tfbigbatch.config import Config, override, variant_of


def get_config() -> Config:
    config = variant_of(__file__, "resnet_small_batch.py")
    override(config, ["model.name=alexnet_bn"])
    config.model.image_size = 32
    config.model.stem = "5x5_stride2"
    config.model.width = 24
    config.model.fc_units = 512
    # TensorFlow's convolutions in groups are slow on CPUs.
    config.model.groups = 1
    config.duration = "20 epochs"
    config.schedule.learning_rate = 0.05
    config.evaluate_every = config.checkpoint_every = "2 epochs"
    return config
