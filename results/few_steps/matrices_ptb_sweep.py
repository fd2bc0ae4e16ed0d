"""What is a matrix to Muon, and which scale, momentum and partner serve: PTB-small in 291 steps.

    python benchmarks/few_steps_jax --sweep=results/few_steps/matrices_ptb_sweep.py --tasks=ptb --data_dir=data \\
      --results=results/few_steps/matrices_runs.jsonl.gz
    tfbigbatch sweep --sweep=results/few_steps/matrices_ptb_sweep.py --model_dir=runs/ptb_matrices \\
      --data_dir=data/ptb_prepared --processes=2 --results=results/few_steps/ptb_matrices

The first on a GPU, with eight learning rates and eight seeds; the second on a CPU, with three learning rates or more,
and three seeds of two minutes and more of a core. Half an epoch at batch 80: as many steps as four epochs at 640 have.
Chosen on the validation text, measured on the test. All rows have the output bias at the log of frequency, gradients
clipped at 0.25, 15 steps of warm-up, and a linear decay to 0.
"""

import copy

from tfbigbatch import sweeps
from tfbigbatch.config import Config, load_config

# What was its default when the table was made.
ADAM = {"beta_2": 0.95}
MUON = {"name": "muon", "vectors": ADAM, "exclude_from_weight_decay": []}
# The name of a row: the optimizer's fields, and the learning rates that its trials begin with.
ROWS = {
    "SGD": ({"name": "momentum", "momentum": 0.0}, (10.0, 20.0, 40.0)),
    "Nesterov": ({"name": "momentum", "momentum": 0.9, "nesterov": True}, (1.0, 4.0, 16.0)),
    "AdamW": ({"name": "adamw", "beta_2": 0.99, "weight_decay": 0.0}, (0.01, 0.02, 0.04)),
    "LAMB": ({"name": "lamb", "beta_2": 0.99, "exclude_from_weight_decay": []}, (0.02, 0.04, 0.08)),
    "Muon": (MUON, (0.01, 0.02, 0.04)),
    "Muon, gates": ({**MUON, "treatments": (("lstm", "gates"),)}, (0.01, 0.02, 0.04)),
    "Muon everywhere": (
        {**MUON, "treatments": (("embedding|logits/kernel", "matrix"),)},
        (0.01, 0.02, 0.04),
    ),
    "Muon, output layer too": ({**MUON, "treatments": (("logits/kernel", "matrix"),)}, (0.01, 0.02, 0.04)),
    "Muon, embedding too": ({**MUON, "treatments": (("embedding", "matrix"),)}, (0.01, 0.02, 0.04)),
    "Muon, vectors at a third": ({**MUON, "vectors": {**ADAM, "learning_rate_ratio": 0.333}}, (0.02, 0.04, 0.08)),
    "Muon, vectors at 3 times": ({**MUON, "vectors": {**ADAM, "learning_rate_ratio": 3.0}}, (0.005, 0.01, 0.02)),
    "Muon, beta_2 0.99": ({**MUON, "vectors": {"beta_2": 0.99}}, (0.01, 0.02, 0.04)),
    "Muon, LAMB for vectors": ({**MUON, "vectors": {**ADAM, "step": "lamb"}}, (0.01, 0.02, 0.04)),
    "Muon, trust ratio": ({**MUON, "scale": "trust_ratio"}, (0.01, 0.02, 0.04)),
    "Muon, spectral": (
        {**MUON, "scale": "spectral", "vectors": {**ADAM, "learning_rate_ratio": 0.1}},
        (0.05, 0.1, 0.2),
    ),
    "Muon, NorMuon": ({**MUON, "normuon_beta": 0.95}, (0.01, 0.02, 0.04)),
    "Muon, Polar Express": ({**MUON, "newton_schulz": {"coefficients": "polar_express"}}, (0.01, 0.02, 0.04)),
    "Muon, momentum 0.9": ({**MUON, "momentum": 0.9}, (0.01, 0.02, 0.04)),
    "Muon, three Newton-Schulz steps": ({**MUON, "newton_schulz": {"steps": 3}}, (0.01, 0.02, 0.04)),
}
BUDGET = 3


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("PTB-small, half an epoch at batch 80")
    for name, (optimizer, rates) in ROWS.items():
        config = _base()
        config.optimizer = {**optimizer, "global_clipnorm": 0.25}
        trial = copy.deepcopy(config)
        trial.evaluate_on = "valid"
        table.tune(name, config, trial=trial, learning_rates=rates, budget=BUDGET, seeds=(0, 1, 2))
    return table


def _base() -> Config:
    config = load_config("ptb/small")
    config.model.output_bias = "frequency"
    config.batch_size = config.schedule.batch_size = 80
    config.duration = "291 steps"
    config.schedule.warmup = "15 steps"
    config.schedule.decay = "linear"
    config.schedule.start = "0 epochs"
    config.evaluate_every = config.checkpoint_every = "291 steps"
    config.keep_best = False
    config.log_every = "10 steps"
    return config
