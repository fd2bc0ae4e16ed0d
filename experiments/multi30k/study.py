"""A small GNMT on Multi30k at 16 and 32 times the batch of its recipe, 12 epochs each: how well each rule carries it.

    python tools/study.py --study=experiments/multi30k/study.py --model_dir=runs/multi30k_study \\
      --data_dir=data/multi30k_en_de --processes=2 --results=docs/results/multi30k \\
      --ended_runs=docs/results/multi30k_runs.jsonl

BLEU on test2016. The rates at 64 are the best of study_rates.py. Three seeds of the baselines, and of LEGW with either
optimizer at 1,024; one of all else. Not run yet.
"""

import functools

from tfbigbatch import experiment, study

BATCH_SIZES = (1024, 2048)
WARMUP_EPOCHS = 2.0  # of the linear rule
LAMB = {"name": "lamb", "weight_decay": 0.0, "beta_2": 0.98, "global_clipnorm": 5.0}
LAMB_RATE = 0.01
# On a CPU a large batch is slower than its parts: its logits leave the caches.
MICRO_BATCH = 128


def get_study():
    table = study.new("Multi30k, a small GNMT, 12 epochs", baseline="baseline")
    table.add("baseline", _base(64), seeds=(0, 1, 2), tuned="at 64")
    adapted = {"optimizer": LAMB, "learning_rate": LAMB_RATE}
    table.add("LAMB", study.carried(_base(64), 64, "none", **adapted), seeds=(0, 1, 2), tuned="at 64")
    for batch_size in BATCH_SIZES:
        carried = functools.partial(study.carried, _base(batch_size), batch_size)
        seeds = (0, 1, 2) if batch_size == BATCH_SIZES[0] else (0,)
        table.add("LEGW", carried("legw"), seeds=seeds, tuned="at 64")
        table.add("LEGW + LAMB", carried("legw", **adapted), seeds=seeds, tuned="at 64")
        table.add("linear", carried("linear", warmup_epochs=WARMUP_EPOCHS), tuned="at 64")
        table.add("naive", carried("none"), tuned="not")
    return table


def _base(batch_size):
    config = experiment.variant_of(__file__, "gnmt_small_batch.py")
    if batch_size > MICRO_BATCH:
        config.accumulation_steps = batch_size // MICRO_BATCH
        # An epoch is down to 14 updates here.
        config.log_every = "1 epochs"
    return config
