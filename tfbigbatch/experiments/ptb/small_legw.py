"""PTB-small at 32 times the batch (640), the small batch's recipe carried by LEGW (arXiv:1901.08256).

    python -m tfbigbatch.train --config=experiments/ptb/small_legw.py --model_dir=runs/ptb_small_640 \\
      --data_dir=data/ptb_prepared

One CPU core, about an hour. Expected: the perplexity of small.py. Measured: 494 after four epochs, 292 updates
(docs/results/ptb.md), which are too few, and 304 after the thirteen (docs/results/ptb_13_epochs.md).
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "small.py")
    config.batch_size = 640
    config.schedule.rule = "legw"
    # Warm-up grows with the batch: 0.1 epochs at 20 are 3.2 at 640.
    config.schedule.warmup_epochs = 0.1
    config.log_every = "20 steps"
    config.steps_per_execution = 1
    return config
