"""Where the loss of few steps is: PTB-small, half an epoch in 1,162 steps of 20 or 291 of 80.

    python tools/study.py --study=experiments/ptb/study_plateau.py --model_dir=runs/ptb_plateau \\
      --data_dir=data/ptb_prepared --ended_runs=results/why/ptb_plateau_runs.jsonl
    python tools/explain.py --study=experiments/ptb/study_plateau.py --model_dir=runs/ptb_plateau \\
      --results=results/why/ptb_plateau

Each row without and with the output bias at the log of the tokens' frequency. 291 steps are as many as four epochs at
640 have, in two minutes of a core. Learning rates: the recipe's at 20, LEGW's at 80, and for AdamW and Muon the best of
few trials. "2 x longer" and "4 x longer" have one and two epochs at the same batch. Perplexity on the valid set, one
seed. What the runs say: docs/why-large-batches-lose-accuracy.md.
"""

from tfbigbatch import experiment
from tfbigbatch.studies import study

SMALL, LARGE = 20, 80
STEPS = {SMALL: 1162, LARGE: 291}
RATE = 20.0  # of SGD at SMALL; at LARGE by LEGW
SGD = {"name": "momentum", "momentum": 0.0}
ROWS = (
    ("SGD", SMALL, SGD, RATE),
    ("SGD", LARGE, SGD, RATE * (LARGE / SMALL) ** 0.5),
    ("AdamW", LARGE, {"name": "adamw", "beta_2": 0.99, "weight_decay": 0.0}, 0.02),
    ("Muon", LARGE, {"name": "muon"}, 0.02),
)
BIASES = {"uniform": "", "frequency": ", bias"}
LONGER = (2, 4)


def get_study() -> study.Study:
    table = study.new("PTB-small, half an epoch", baseline="SGD, bias, small batch")
    for method, batch_size, optimizer, rate in ROWS:
        for bias, suffix in BIASES.items():
            name = f"{method}{suffix}{', small batch' if batch_size == SMALL else ''}"
            table.add(name, _config(batch_size, optimizer, rate, bias), tuned="at 20" if method == "SGD" else "at 80")
    for method, batch_size, optimizer, rate in ROWS[1:]:
        for times in LONGER:
            config = _config(batch_size, optimizer, rate, "frequency", times)
            table.add(f"{method}, bias, {times} x longer", config, tuned="at 20" if method == "SGD" else "at 80")
    return table


def _config(batch_size, optimizer, rate, bias, times=1):
    config = experiment.variant_of(__file__, "small.py")
    steps = STEPS[batch_size] * times
    config.batch_size = config.schedule.batch_size = batch_size
    config.model.output_bias = bias
    config.optimizer = {**optimizer, "global_clipnorm": 0.25}
    config.schedule.learning_rate = rate
    config.schedule.warmup = f"{steps // 20} steps"
    config.schedule.decay = "linear"
    config.schedule.start = "0 epochs"
    config.duration = config.evaluate_every = config.checkpoint_every = f"{steps} steps"
    config.evaluate_on = "valid"
    config.keep_best = False
    # Each step at the large batch, and windows of as many examples at the small one.
    config.log_every = f"{LARGE // batch_size} steps"
    config.steps_per_execution = 1
    return config
