"""PTB-small from 20 to 640 in the paper's 13 epochs: 949 updates, and not the 292 of its neighbour's four epochs.

    tfbigbatch sweep --sweep=results/ptb_13_epochs_sweep.py --model_dir=runs/ptb_sweep_13_epochs \\
      --data_dir=data/ptb_prepared --processes=2 --results=results/ptb_13_epochs

Perplexity on the test set, one seed, an hour of a core each. The recipe of small.py and, with AdamW, the row of
results/ptb_sweep.py, both carried by LEGW. Then with the output bias at the log of each word's frequency: the recipe
again, and with momentum at a tenth of its learning rate; AdamW, LAMB and Muon at the learning rates that were best in
four epochs at 640 (results/few_steps/jax_ptb.json), for AdamW and Muon what the square root makes of the best at 20.

On a GPU the rows have eight learning rates each:
`python benchmarks/few_steps_jax --sweep=results/ptb_13_epochs_sweep.py --tasks=ptb`. "LEGW with momentum, bias" was not
run.
"""

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

WARMUP_EPOCHS = 1 / 32  # at batch 20: an epoch at 640
MOMENTUM = {"name": "momentum", "momentum": 0.9, "global_clipnorm": 0.25}
OF_FOUR_EPOCHS = {
    "AdamW": ({"name": "adamw", "beta_2": 0.99}, 0.02),
    "LAMB": (
        {
            "name": "lamb",
            "beta_2": 0.99,
            "exclude_from_weight_decay": [],
            "exclude_from_layer_adaptation": "norm_and_bias",
        },
        0.04,
    ),
    "Muon": ({"name": "muon", "vectors": {"beta_2": 0.99}, "exclude_from_weight_decay": []}, 0.01),
}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("PTB-small, 13 epochs")
    table.add("LEGW", sweeps.scaled(_base(), 640, "legw", warmup_epochs=WARMUP_EPOCHS), tuned="at 20")
    adamw = _base()
    adamw.schedule.decay = "linear"
    adamw.schedule.start = "0 epochs"
    adamw.optimizer = {"name": "adamw", "weight_decay": 0.0, "global_clipnorm": 0.25}
    adamw.schedule.learning_rate = 0.0005
    table.add("LEGW + AdamW", sweeps.scaled(adamw, 640, "legw", warmup_epochs=WARMUP_EPOCHS), tuned="2 rates at 640")

    biased = sweeps.scaled(_base(), 640, "legw", warmup_epochs=WARMUP_EPOCHS)
    biased.model.output_bias = "frequency"
    table.add("LEGW, bias", biased, tuned="at 20")
    momentum = sweeps.scaled(biased, 640, "legw", learning_rate=2.0, optimizer=MOMENTUM)
    table.add("LEGW with momentum, bias", momentum, tuned="not")
    for name, (optimizer, learning_rate) in OF_FOUR_EPOCHS.items():
        config = sweeps.scaled(biased, 640, "none", learning_rate=learning_rate, warmup_epochs=0.2)
        config.schedule.decay = "linear"
        config.schedule.start = "0 epochs"
        config.optimizer = {"weight_decay": 0.0, "global_clipnorm": 0.25, **optimizer}
        table.add(f"{name}, bias", config, tuned="4 epochs at 640")
    return table


def _base():
    config = load_config("ptb/small")
    config.log_every = "20 steps"
    return config
