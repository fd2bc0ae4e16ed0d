"""AlexNet-BN with LARS at batch 16,384, 100 epochs: You et al. 2017 (arXiv:1708.03888).

    python -m tfbigbatch.train --config=experiments/imagenet/alexnet_bn_lars_16k.py \\
      --model_dir=runs/alexnet_bn_lars_16k --data_dir=data/imagenet_prepared

Hardware: 32 GPUs or TPU chips. Rate and warm-up are those of NVIDIA/caffe's models/alexnet_bn/solver_16k.prototxt, by
one of the paper's authors, which bounds the ratio by the rate. Expected: somewhat less than the 60% of batch 512. Not
measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "alexnet_bn_lars_8k.py")
    config.batch_size = config.schedule.batch_size = 16384
    config.schedule.learning_rate = 24.0
    config.schedule.warmup_epochs = 5.0
    return config
