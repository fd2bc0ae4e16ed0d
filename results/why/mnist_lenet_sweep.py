"""Why a large batch loses accuracy: LeNet-5 on MNIST at batch 64 and, by many methods, at 4,096.

    tfbigbatch sweep --sweep=results/why/mnist_lenet_sweep.py --model_dir=runs/why \\
      --data_dir=FOLDER_WITH_THE_FOUR_IDX_FILES --processes=2 --results=results/why/mnist_lenet

results/why/mnist_lenet_examined has the sharpness and the gradient noise of each run's last checkpoint, measured at
commit 3885ce7 (`tfbigbatch examine`).

Ten epochs: 9,375 updates at 64, 146 at 4,096. "longer" is the naive run with four and sixteen times the epochs, and so
the updates. Adasum is of 16 workers of 256, at the small batch's rate. LEGW's carried rate needs clipping; its clip,
and the rates of LARS, LAMB, Nesterov and AdamW, are the best of TRIALS by seed 100. What the runs say:
docs/why-large-batches-lose-accuracy.md.
"""

import functools

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

SMALL, LARGE, WORKERS = 64, 4096, 16
SEEDS = (0, 1, 2)
OPTIMIZERS = {
    "LARS": {"name": "lars", "momentum": 0.9, "weight_decay": 0.0, "exclude_from_weight_decay": []},
    "LAMB": {"name": "lamb", "weight_decay": 0.0, "exclude_from_weight_decay": []},
    "Nesterov": {"name": "momentum", "momentum": 0.9, "nesterov": True, "global_clipnorm": 0.3},
    "AdamW": {"name": "adamw", "weight_decay": 0.01},
}
TRIALS = {
    "LARS": (2.0, 4.0, 8.0, 16.0, 32.0),
    "LAMB": (0.02, 0.04, 0.08),
    "Nesterov": (0.05, 0.1, 0.2, 0.4, 0.8),
    "AdamW": (0.004, 0.008, 0.016, 0.032),
}
CLIPS = (0.03, 0.1, 0.3, 1.0)
BEST = {"LARS": 32.0, "LAMB": 0.04, "Nesterov": 0.8, "AdamW": 0.032}
BEST_CLIP = 1.0


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("LeNet-5 on MNIST, 10 epochs", baseline="small batch", target=0.985)
    base = _base()
    table.add("small batch", base, seeds=SEEDS, tuned="at 32")
    base.log_every = "1 epochs"
    scaled = functools.partial(sweeps.scaled, base, LARGE)
    table.add("naive", scaled("none"), seeds=SEEDS, tuned="not")
    legw = scaled("legw")
    table.add("LEGW", legw, seeds=SEEDS, tuned="at 32")
    adasum = scaled("none", optimizer={**base.optimizer.to_dict(), "adasum": True})
    adasum.simulated_replicas = WORKERS
    table.add("Adasum", adasum, seeds=SEEDS, tuned="at 32")
    for name, optimizer in OPTIMIZERS.items():
        tuned = functools.partial(scaled, "none", tuned_at=LARGE, optimizer=optimizer, warmup_epochs=2.0)
        for rate in TRIALS[name]:
            row = tuned(learning_rate=rate)
            if BEST.get(name) == rate:
                table.add(name, row, seeds=SEEDS, tuned="at 4,096")
            table.add(f"{name}, {rate:g}", row, seeds=(100,), tuned="a trial")
    for clip in CLIPS:
        clipped = sweeps.scaled(
            legw, LARGE, "legw", optimizer={"name": "momentum", "momentum": 0.9, "global_clipnorm": clip}
        )
        if clip == BEST_CLIP:
            table.add("LEGW, clipped", clipped, seeds=SEEDS, tuned="clip at 4,096")
        table.add(f"LEGW, clip {clip:g}", clipped, seeds=(100,), tuned="a trial")
    for times, seeds in ((4, SEEDS), (16, SEEDS[:1])):
        longer = scaled("none")
        longer.duration = f"{10 * times} epochs"
        longer.evaluate_every = longer.checkpoint_every = f"{2 * times} epochs"
        table.add(f"naive, {times} x longer", longer, seeds=seeds, tuned="not")
    return table


def _base():
    base = load_config("mnist/lenet_small_batch")
    base.batch_size = base.schedule.batch_size = SMALL
    base.schedule.learning_rate = 0.04
    base.schedule.warmup_epochs = 0.05
    base.duration = "10 epochs"
    base.evaluate_every = base.checkpoint_every = "2 epochs"
    # Each is looked at afterwards.
    base.keep_checkpoints = 8
    return base
