"""AlexNet-BN with LARS at batch 32,768, 100 epochs: You et al. 2017 (arXiv:1708.03888).

    python -m tfbigbatch.train --config=experiments/imagenet/alexnet_bn_lars_32k.py \\
      --model_dir=runs/alexnet_bn_lars_32k --data_dir=data/imagenet_prepared

Hardware: 64 GPUs or TPU chips. Rate and warm-up are those of NVIDIA/caffe's models/alexnet_bn/solver_32k.prototxt, by
one of the paper's authors, which bounds the ratio by the rate. Expected: about 58% top-1. Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "alexnet_bn_lars_8k.py")
    config.batch_size = config.schedule.batch_size = 32768
    config.schedule.learning_rate = 32.0
    config.schedule.warmup_epochs = 10.0
    return config
