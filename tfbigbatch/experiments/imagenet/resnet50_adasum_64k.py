"""ResNet-50 at batch 65,536, the replicas combined by Adasum at the small batch's rate: arXiv:2006.02924.

    python -m tfbigbatch.train --config=experiments/imagenet/resnet50_adasum_64k.py --model_dir=runs/resnet50_adasum \\
      --data_dir=data/imagenet_prepared

Hardware: a TPU v3-512 slice, 128 examples to a replica; by `"adasum": {"group_size": 2}` the two cores of a chip would
average first, to the small batch of 256. Expected: MLPerf's 75.9% top-1 or more (the paper, on 64 GPUs at its own
schedule; this recipe is resnet50.py's with five epochs of warm-up). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "resnet50.py")
    config.batch_size = 65536
    config.optimizer = {**config.optimizer.to_dict(), "adasum": True}
    config.schedule.warmup_epochs = 5.0
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    return config
