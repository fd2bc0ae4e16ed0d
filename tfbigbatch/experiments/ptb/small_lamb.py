"""PTB-small at its own batch of 20 with LAMB, whose rate LEGW then carries to larger ones.

    python -m tfbigbatch.train --config=experiments/ptb/small_lamb.py --model_dir=runs/ptb_small_lamb \\
      --data_dir=data/ptb_prepared

One CPU core, about an hour. Expected: the perplexity of small.py. Measured: what LEGW carries of it to 80, 320 and 640
in four epochs each (docs/results/ptb.md), which is worse than momentum at 80 already.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "small.py")
    config.optimizer = {"name": "lamb", "weight_decay": 0.0, "global_clipnorm": 0.25}
    # The best of three in three epochs: docs/results/tuning/ptb_lamb_20.json. At twice this rate it diverges.
    config.schedule.learning_rate = 0.005
    config.schedule.warmup_epochs = 0.1
    return config
