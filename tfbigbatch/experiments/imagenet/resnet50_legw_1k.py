"""ResNet-50 with LARS at batch 1,024, 90 epochs, by LEGW: You et al. 2019 (arXiv:1901.08256).

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_legw_1k.py --model_dir=runs/resnet50_legw_1k \\
      --data_dir=data/imagenet_prepared

Hardware: 8 TPU v3 chips or GPUs. The recipe is that of batch 512: rate 4, 10/64 epochs of warm-up.
Expected: 76.96% top-1 (its authors' repository). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.new("image_classification", model="resnet50")

    config.model.label_smoothing = 0.1
    config.batch_size = 1024
    config.duration = "90 epochs"
    config.optimizer = {
        "name": "lars",
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "exclude_from_weight_decay": "norm_and_bias",
    }
    config.schedule.rule = "legw"
    config.schedule.batch_size = 512
    config.schedule.learning_rate = 4.0
    config.schedule.warmup_epochs = 10 / 64
    config.schedule.decay = "polynomial"
    config.schedule.power = 2.0

    config.mixed_precision = "bfloat16"
    config.evaluation_batch_size = 1024
    config.evaluate_every = "4 epochs"
    config.checkpoint_every = "1 epochs"
    config.log_every = "20 steps"
    config.steps_per_execution = 20
    # Bitwise repeatable kernels are slow, and missing for some, on accelerators.
    config.deterministic = False
    return config
