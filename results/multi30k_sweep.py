"""A small GNMT on Multi30k at 4 to 32 times the batch of its recipe, 12 epochs each: how well each rule carries it.

    tfbigbatch sweep --sweep=results/multi30k_sweep.py --model_dir=runs/multi30k_sweep \\
      --data_dir=data/multi30k_en_de --processes=2 --results=results/multi30k \\
      --results_cache=results/runs.jsonl.gz

BLEU on test2016. The rates at 64 and Nesterov's at 1,024 are the best of results/tuning/multi30k_sweep.py. Three seeds
of the baseline and at 1,024; one of LAMB at 64, of LEGW's rate halved and so on, and at 256 and 2,048. Measured: 37.2
at 64, 32.0 by LEGW at 1,024; results/multi30k.md, docs/gnmt.md. A run is 15 to 20 minutes of a core of an AMD EPYC with
AVX-512.
"""

import functools

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

BATCH_SIZES = (1024, 2048, 256)
MAIN_BATCH = BATCH_SIZES[0]
WARMUP_EPOCHS = 2.0  # of the linear rule
LAMB = {
    "name": "lamb",
    "weight_decay": 0.0,
    "exclude_from_weight_decay": [],
    "beta_2": 0.98,
    "global_clipnorm": 5.0,
}
LAMB_RATE = 0.01
LEGW_RATE, LEGW_LAMB_RATE = 0.024, 0.04  # what LEGW makes of the rates at 64 at MAIN_BATCH
NESTEROV = {"name": "momentum", "momentum": 0.9, "nesterov": True, "global_clipnorm": 5.0}
NESTEROV_RATE = 0.3
# On a CPU a large batch is slower than its parts: its logits leave the caches.
MICRO_BATCH = 128
SEEDS = (0, 1, 2)


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("Multi30k, a small GNMT, 12 epochs", baseline="baseline")
    adapted = {"optimizer": LAMB, "learning_rate": LAMB_RATE}
    table.add("baseline", _base(64), seeds=SEEDS, tuned="at 64")
    table.add("LAMB", sweeps.scaled(_base(64), 64, "none", **adapted), tuned="at 64")
    for batch_size in BATCH_SIZES:
        scaled = functools.partial(sweeps.scaled, _base(batch_size), batch_size)
        rows = {"seeds": SEEDS if batch_size == MAIN_BATCH else SEEDS[:1], "tuned": "at 64"}
        table.add("LEGW", scaled("legw"), **rows)
        table.add("LEGW + LAMB", scaled("legw", **adapted), **rows)
        if batch_size == MAIN_BATCH:
            # Warm-up as LEGW's, an epoch.
            there = functools.partial(scaled, "none", tuned_at=MAIN_BATCH, warmup_epochs=1.0)
            for factor in (0.5, 2):
                table.add(f"LEGW x {factor}", there(learning_rate=factor * LEGW_RATE), tuned="there")
            for factor in (0.5, 0.25):
                adapted_there = there(learning_rate=factor * LEGW_LAMB_RATE, optimizer=LAMB)
                table.add(f"LEGW x {factor} + LAMB", adapted_there, tuned="there")
            nesterov = there(learning_rate=NESTEROV_RATE, optimizer=NESTEROV)
            table.add("Nesterov", nesterov, seeds=SEEDS, tuned="there")
        table.add("linear", scaled("linear", warmup_epochs=WARMUP_EPOCHS), **rows)
        table.add("naive", scaled("none"), **{**rows, "tuned": "not"})
    return table


def _base(batch_size):
    config = load_config("multi30k/gnmt_small_batch")
    if batch_size > MICRO_BATCH:
        config.accumulation_steps = batch_size // MICRO_BATCH
        # An epoch is down to 14 updates here.
        config.log_every = "1 epochs"
    return config
