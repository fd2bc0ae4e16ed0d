"""PTB-small from 20 to 640 in the paper's 13 epochs: 949 updates, and not the 292 of study.py's four epochs.

    python tools/study.py --study=experiments/ptb/study_13_epochs.py --model_dir=runs/ptb_study_13_epochs \\
      --data_dir=data/ptb_prepared --processes=2 --results=results/ptb_13_epochs

Perplexity on the test set, one seed, an hour of a core each. The recipe of small.py and, with AdamW, the row of
study.py, both carried by LEGW.
"""

from tfbigbatch import experiment
from tfbigbatch.studies import study

WARMUP_EPOCHS = 1 / 32  # at batch 20: an epoch at 640


def get_study() -> study.Study:
    table = study.new("PTB-small, 13 epochs")
    table.add("LEGW", study.scaled(_base(), 640, "legw", warmup_epochs=WARMUP_EPOCHS), tuned="at 20")
    adamw = _base()
    adamw.schedule.decay = "linear"
    adamw.schedule.start = "0 epochs"
    adamw.optimizer = {"name": "adamw", "weight_decay": 0.0, "global_clipnorm": 0.25}
    adamw.schedule.learning_rate = 0.0005
    table.add("LEGW + AdamW", study.scaled(adamw, 640, "legw", warmup_epochs=WARMUP_EPOCHS), tuned="2 rates at 640")
    return table


def _base():
    config = experiment.variant_of(__file__, "small.py")
    config.log_every = "20 steps"
    config.steps_per_execution = 1
    return config
