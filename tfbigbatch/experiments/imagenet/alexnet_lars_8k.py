"""AlexNet with LARS at batch 8,192, 100 epochs: You et al. 2017 (arXiv:1708.03888).

    python -m tfbigbatch.train --config=experiments/imagenet/alexnet_lars_8k.py --model_dir=runs/alexnet_lars_8k \\
      --data_dir=data/imagenet_prepared

Hardware: 16 GPUs or TPU chips. The rate is that of NVIDIA/caffe's models/bvlc_alexnet/solver_8K.prototxt, by one of
the paper's authors, which bounds the ratio by the rate. Expected: about 58% top-1, as at 512. Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "alexnet_512.py")
    config.batch_size = config.schedule.batch_size = 8192
    config.schedule.learning_rate = 10.0
    # None: adapted wherever it decays.
    config.optimizer.exclude_from_layer_adaptation = None
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    return config
