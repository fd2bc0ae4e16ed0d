"""AlexNet-BN at batch 512, 100 epochs: the baseline of You et al. 2017 (arXiv:1708.03888).

    python -m tfbigbatch.train --config=experiments/imagenet/alexnet_bn_512.py --model_dir=runs/alexnet_bn_512 \\
      --data_dir=data/imagenet_prepared

Hardware: one GPU, a day or two. Expected: about 60% top-1 (theirs with crops of one size; ours are Inception's).
Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "alexnet_512.py")
    config.model.name = "alexnet_bn"
    return config
