"""ResNet-50 with Shampoo at batch 32,768 in 1,729 steps, by the settings of its public implementation.

    tfbigbatch train --config=experiments/imagenet/resnet50_shampoo.py:32k \\
      --model_dir=runs/resnet50_shampoo_32k --data_dir=data/imagenet_prepared

Expected: 75.9% top-1, where LARS and tuned Nesterov momentum take 2,512 steps (google-research/google-research,
scalable_shampoo/README.md: median of 50 seeds, 284 to 287 seconds on 256 TPU v3 cores). Not measured here.

| variant | batch | epochs | steps | TPU v3 cores | source |
|---|---:|---:|---:|---:|---|
| 32k | 32,768 | 44.2 | 1,729 | 256 | that README |
| 64k | 65,536 | 66.4 | 1,297 | 512 | none: the square-root rule's learning rate, and the steps of resnet50_muon.py |

Three details differ from the published run. Its statistics begin at 1.5e-5 on the diagonal, ours at zero. Its damping
of blocks smaller than 128 was relative to 1 where that is more than their largest eigenvalue, ours is relative to the
eigenvalue. It cuts an axis at every 128 entries, ours into equal parts: the 1,000 outputs into eight of 125. Label
smoothing, the network and the input pipeline are those of resnet50_lars.py.
"""

from tfbigbatch.config import Config, set_fields, variant_of

VARIANTS = {
    "32k": {},
    "64k": {
        "batch_size": 65536,
        "schedule.batch_size": 65536,
        "duration": "1297 steps",
        "schedule.learning_rate": 18.4,
        "schedule.warmup": "147 steps",
    },
}


def get_config(variant: str = "32k") -> Config:
    config = variant_of(__file__, "resnet50_lars.py:32k")
    config.duration = "1729 steps"
    config.optimizer = {
        "name": "shampoo",
        "beta_1": 0.95,
        "beta_2": 0.85,
        "graft": {"method": "sgd", "steps": 25},
        "block_size": 128,
        "root": {"exponent": 4, "epsilon": 1.5e-5, "every": 1},
        "weight_decay": 1e-4,
        "exclude_from_weight_decay": "norm_and_bias",
    }
    config.schedule.learning_rate = 13.0
    config.schedule.warmup_epochs = 0.0
    config.schedule.warmup = "196 steps"
    config.schedule.decay = "polynomial"
    config.schedule.power = 2.0
    return set_fields(config, VARIANTS[variant])
