"""Where the loss of few steps is: wikitext.py's BERT for three epochs, in 3,131 steps of 64 or 98 of 2,048.

    python tools/study.py --study=experiments/bert/study_plateau.py --model_dir=runs/bert_plateau \\
      --data_dir=data/wikitext_1k_32 --ended_runs=results/why/bert_plateau_runs.jsonl
    python tools/explain.py --study=experiments/bert/study_plateau.py --model_dir=runs/bert_plateau \\
      --results=results/why/bert_plateau

Each row without and with the output bias at the log of the tokens' frequency. Three epochs, a quarter of wikitext.py's
twelve, are two minutes of a core. Learning rates: the recipe's at 64, LEGW's at 2,048, and for AdamW and Muon the best
of few trials in twelve epochs. "2 x longer" and "4 x longer" have six and twelve epochs. Masked-LM accuracy on held-out
text, one seed. What the runs say: docs/why-large-batches-lose-accuracy.md.
"""

from tfbigbatch import experiment
from tfbigbatch.studies import study

SMALL, LARGE = 64, 2048
EPOCHS = 3
RATE = 0.005  # of LAMB at SMALL; at LARGE by LEGW
DECAYED = {"weight_decay": 0.01, "exclude_from_weight_decay": "norm_and_bias", "global_clipnorm": 1.0}
LAMB = {"name": "lamb", "epsilon": 1e-6, **DECAYED}
ROWS = (
    ("LAMB", SMALL, LAMB, RATE),
    ("LAMB", LARGE, LAMB, RATE * (LARGE / SMALL) ** 0.5),
    ("AdamW", LARGE, {"name": "adamw", "beta_2": 0.99, **DECAYED}, 0.008),
    ("Muon", LARGE, {"name": "muon", **DECAYED}, 0.03),
)
BIASES = {"zero": "", "frequency": ", bias"}
LONGER = (2, 4)


def get_study() -> study.Study:
    table = study.new("WikiText-2, a BERT of 2 x 64, 3 epochs", baseline="LAMB, bias, small batch")
    for method, batch_size, optimizer, rate in ROWS:
        for bias, suffix in BIASES.items():
            name = f"{method}{suffix}{', small batch' if batch_size == SMALL else ''}"
            table.add(name, _config(batch_size, optimizer, rate, bias), tuned="at 64" if method == "LAMB" else "there")
    for method, batch_size, optimizer, rate in ROWS[1:]:
        for times in LONGER:
            config = _config(batch_size, optimizer, rate, "frequency", times)
            table.add(f"{method}, bias, {times} x longer", config, tuned="at 64" if method == "LAMB" else "there")
    return table


def _config(batch_size, optimizer, rate, bias, times=1):
    config = experiment.variant_of(__file__, "wikitext.py")
    config.batch_size = config.schedule.batch_size = batch_size
    config.model.output_bias = bias
    config.optimizer = optimizer
    config.schedule.rule = "none"
    config.schedule.learning_rate = rate
    # A fifteenth of the run, as 26 of 391 steps.
    config.schedule.warmup_epochs = EPOCHS * times / 15
    config.duration = config.evaluate_every = config.checkpoint_every = f"{EPOCHS * times} epochs"
    config.keep_best = False
    # Each step at the large batch, and windows of as many examples at the small one.
    config.log_every = f"{LARGE // batch_size} steps"
    config.steps_per_execution = 8 if batch_size == SMALL else 1
    return config
