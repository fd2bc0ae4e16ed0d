"""Adasum beside averaging and summing: BERT-tiny on WikiText-2, 4 workers of 8 sequences of 64 tokens.

    tfbigbatch prepare-bert --source=WIKITEXT_2/train.txt --train_vocab_size=1024 --max_seq_length=64 \\
      --max_predictions_per_seq=10 --validation_fraction=0.03 --output_dir=data/wikitext_1k_64
    tfbigbatch sweep --sweep=results/adasum/bert_tiny_sweep.py --model_dir=runs/adasum_bert \\
      --data_dir=data/wikitext_1k_64 --processes=2 --results=results/adasum/bert_tiny

A quarter of an epoch, 411 updates at 32: pretraining's first steps. The vocabulary is small, so that so few updates
learn more than how often each token comes (5% of the masked tokens). One worker's rate is chosen among RATES, and kept;
the sum is averaging at four times this rate. Rows "x2" have twice the rate. All rows have seed 0; BEST, the best of
it for one worker, for averaging and for Adasum, have three seeds, as have the workers at one worker's rate.
"""

import adasum_workers

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

WORKERS = 4
SEEDS = (0, 1, 2)
TIMES = {"average": (2, 3), "Adasum": (0.5, 1.5, 2, 4)}
RATES = {"momentum": (0.05, 0.1, 0.2), "Adam": (0.0005, 0.001, 0.002), "LAMB": (0.0025, 0.005, 0.01)}
CHOSEN = {"momentum": 0.1, "Adam": 0.001, "LAMB": 0.005}
BEST = (
    *(f"{name}, {rate}" for name, rate in CHOSEN.items()),
    *(f"{name}, average, x2" for name in CHOSEN),
    "momentum, Adasum, x2",
)
CLIP = {"global_clipnorm": 1.0}
OPTIMIZERS = {
    "momentum": {"name": "momentum", "momentum": 0.9, **CLIP},
    "Adam": {"name": "adamw", "weight_decay": 0.0, **CLIP},
    "LAMB": {"name": "lamb", "weight_decay": 0.0, "exclude_from_weight_decay": [], **CLIP},
}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("WikiText-2, BERT-tiny, 4 workers of 8 sequences", target=0.1)
    for name, optimizer in OPTIMIZERS.items():
        for rate in RATES[name]:
            row = f"{name}, {rate}"
            table.add(row, _one(optimizer, rate), seeds=SEEDS if row in BEST else SEEDS[:1], tuned="here")
        one = _one(optimizer, CHOSEN[name])
        one.log_every = "0.025 epochs"
        adasum_workers.add_workers(table, name, one, WORKERS, seeds=_seeds, tuned="at 8", times=TIMES)
    return table


def _one(optimizer, rate):
    base = load_config("bert/tiny")
    base.model.output_bias = "zero"  # as in the runs of results/
    base.duration = "0.25 epochs"
    base.schedule.warmup_epochs = 0.02
    base.evaluate_every = "0.05 epochs"
    base.checkpoint_every = "0.25 epochs"
    return sweeps.scaled(base, 8, "none", tuned_at=8, optimizer=optimizer, learning_rate=rate)


def _seeds(row):
    return SEEDS if row in BEST or row.endswith((", average", ", sum", ", Adasum")) else SEEDS[:1]
