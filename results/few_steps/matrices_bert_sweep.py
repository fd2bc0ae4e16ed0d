"""What of an attention is a matrix to Muon: its kernels whole, by head, or left to Adam; a small BERT in 195 steps.

    tfbigbatch sweep --sweep=results/few_steps/matrices_bert_sweep.py --data_dir=data/wikitext_1k_32 \\
      --model_dir=runs/bert_matrices \\
      --results=results/few_steps/matrices_bert --results_cache=results/few_steps/runs.jsonl.gz

The BERT of wikitext.py:32, with four heads of 16 in place of one of 64, at 32 times its batch for 6 epochs. Three
learning rates or more, a factor of 2 apart, chosen on training sequences that are held out; three seeds, measured on
the held-out text. All rows have the output bias at the log of frequency, gradients clipped at 1, and a linear decay to
0. A run is minutes of one core with instructions for bfloat16. Measured: docs/muon.md.
"""

import copy

from tfbigbatch import sweeps
from tfbigbatch.config import Config, load_config

BATCH_SIZE = 2048
MICRO_BATCH = 256
# The name of a row: how the kernels of its attentions are treated.
ROWS = {
    "kernels whole": "matrix",
    "by head": "heads",
    "kernels by Adam": "vector",
}
LEARNING_RATES = (0.015, 0.03, 0.06)
BUDGET = 3
SEEDS = (0, 1, 2)


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("WikiText-2, a BERT of 2 x 64 with four heads, 6 epochs")
    for name, treatment in ROWS.items():
        config = _config(treatment)
        trial = copy.deepcopy(config)
        trial.evaluate_on, trial.data.minival = "minival", 2048
        table.tune(name, config, trial=trial, learning_rates=LEARNING_RATES, budget=BUDGET, seeds=SEEDS)
    return table


def _config(treatment: str) -> Config:
    config = load_config("bert/wikitext:32")
    config.model.update(heads=4, output_bias="frequency")
    config.duration = "6 epochs"
    config.batch_size = config.schedule.batch_size = BATCH_SIZE
    config.accumulation_steps = BATCH_SIZE // MICRO_BATCH
    config.schedule.rule = "none"
    config.schedule.warmup_epochs = 0.4
    config.schedule.decay, config.schedule.start = "linear", "0 epochs"
    config.optimizer = {
        "name": "muon",
        "vectors": {"beta_2": 0.99},
        "weight_decay": 0.01,
        "exclude_from_weight_decay": "norm_and_bias",
        "global_clipnorm": 1.0,
        "treatments": (("self_attention/", treatment),),
    }
    config.log_every = "0.25 epochs"
    config.keep_best = False
    return config
