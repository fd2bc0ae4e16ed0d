"""PTB-small at 4 to 32 times the batch of its recipe, 4 epochs each: how well each rule carries it.

    tfbigbatch sweep --sweep=results/ptb_sweep.py --model_dir=runs/ptb_sweep \\
      --data_dir=data/ptb_prepared --processes=2 --results=results/ptb

Perplexity on the test set, one seed. Nothing is tuned at a large batch. The recipe is that of small.py, but for
its 13 epochs: the rate is halved from the third epoch on and not from the fifth. AdamW's rate decays
linearly; with four times of it the first epoch at 640 ended at 845.
"""

import functools

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

WARMUP_EPOCHS = 1 / 32  # at batch 20, and so 1 at 640 by LEGW; the linear rule keeps it
BATCH_SIZES = (80, 320, 640)
ADAMW = {"name": "adamw", "weight_decay": 0.0, "global_clipnorm": 0.25}


def get_sweep() -> sweeps.Sweep:
    lamb = load_config("ptb/small:lamb")
    adapted = {"optimizer": lamb.optimizer, "learning_rate": lamb.schedule.learning_rate}
    table = sweeps.Sweep("PTB-small, 4 epochs", baseline="baseline")
    table.add("baseline", sweeps.scaled(_base(20), 20, "none"), seeds=(0,), tuned="Zaremba et al. 2014")
    for batch_size in BATCH_SIZES:
        scaled = functools.partial(sweeps.scaled, _base(batch_size), batch_size)
        table.add("naive", scaled("none"), seeds=(0,), tuned="not")
        table.add("linear", scaled("linear"), seeds=(0,), tuned="at 20")
        table.add("LEGW", scaled("legw"), seeds=(0,), tuned="at 20")
        table.add("LEGW + LAMB", scaled("legw", **adapted), seeds=(0,), tuned="at 20")
    adamw = _base(640)
    adamw.schedule.decay = "linear"
    adamw.schedule.start = "0 epochs"
    table.add("LEGW + AdamW", sweeps.scaled(adamw, 640, "legw", optimizer=ADAMW, learning_rate=0.0005), tuned="not")
    return table


def _base(batch_size):
    config = load_config("ptb/small")
    config.duration = "4 epochs"
    config.schedule.start = "1 epochs"
    config.schedule.warmup_epochs = WARMUP_EPOCHS
    if batch_size > 20:
        # An epoch is down to 73 updates here: the small batch's 200 and 10 would be long.
        config.log_every = "20 steps"
    return config
