"""ResNet-50 with Muon at batch 32,768 and 65,536.

    tfbigbatch train --config=experiments/imagenet/resnet50_muon.py:32k --model_dir=runs/resnet50_muon_32k \\
      --data_dir=data/imagenet_prepared

Expected: no figure is published for this recipe, and it was not run: a place to start from. The learning rate
is Muon's default. Decay and warm-up are those of the small AlexNet-BN on tiny-imagenet, whose best learning rate at
2,048 (244 steps) was 0.0081, with 0.02 a point behind (results/few_steps/few_steps_alexnet_bn_trials.json.gz). Tune it:
the small ResNet there had its best at 0.18, with 0.03 2.6 points behind (732 steps, runs.jsonl.gz).
The length is that of the fewest steps in which a published run at 32,768 has 75.9% (Distributed Shampoo,
resnet50_shampoo.py). The classifier's kernel, [2048, 1000], is orthogonalised as the convolutions are.

| variant | batch | epochs | steps | TPU v3 chips |
|---|---:|---:|---:|---:|
| 32k | 32,768 | 44.2 | 1,729 | 256 |
| 64k | 65,536 | 66.4 | 1,297 | 512 |
"""

from tfbigbatch.config import Config, variant_of

VARIANTS = ("32k", "64k")


def get_config(variant: str = "32k") -> Config:
    config = variant_of(__file__, f"resnet50_shampoo.py:{variant}")
    config.optimizer = {"name": "muon", "weight_decay": 0.05, "exclude_from_weight_decay": "norm_and_bias"}
    config.schedule.learning_rate = 0.02
    config.schedule.decay = "linear"
    return config
