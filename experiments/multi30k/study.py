"""A small GNMT on Multi30k at 4 to 32 times the batch of its recipe: how well each rule carries it.

    python tools/study.py --study=experiments/multi30k/study.py --model_dir=runs/multi30k_study \\
      --data_dir=data/multi30k_en_de --processes=2 --results=docs/results/multi30k

BLEU on test2016. Three seeds at 64, and of LEGW at 1,024; one of all else. LAMB's rate belongs to 64. Not run yet.
"""

import functools

from tfbigbatch import experiment, study

BATCH_SIZES = (256, 1024, 2048)
WARMUP_EPOCHS = 2.0  # of the linear rule
LAMB = {"name": "lamb", "weight_decay": 0.0, "beta_2": 0.98, "global_clipnorm": 5.0}
LAMB_RATE = 0.004


def get_study():
    table = study.new("Multi30k, a small GNMT", baseline="baseline")
    table.add("baseline", _base(64), seeds=(0, 1, 2), tuned="at 64")
    for batch_size in BATCH_SIZES:
        carried = functools.partial(study.carried, _base(batch_size), batch_size)
        legw_seeds = (0, 1, 2) if batch_size == 1024 else (0,)
        table.add("naive", carried("none"), tuned="not")
        table.add("linear", carried("linear", warmup_epochs=WARMUP_EPOCHS), tuned="at 64")
        table.add("LEGW", carried("legw"), seeds=legw_seeds, tuned="at 64")
        table.add("LEGW + LAMB", carried("legw", optimizer=LAMB, learning_rate=LAMB_RATE), tuned="at 64")
    return table


def _base(batch_size):
    config = experiment.variant_of(__file__, "gnmt_small_batch.py")
    if batch_size > 64:
        # An epoch is down to 14 updates here.
        config.log_every = "1 epochs"
    return config
