"""Muon's products in float32 and in bfloat16: what the rounding does to accuracy.

    tfbigbatch sweep --sweep=results/few_steps/products_digits_sweep.py:digits --model_dir=runs/products_digits \\
      --results=results/few_steps/products_digits --results_cache=results/few_steps/runs.jsonl.gz

`digits`, without data, and `bert` on WikiText-2, with the data of few_steps/sweep: the row of Muon at the large batch
of results/ramp/sweep.py, at one learning rate for both. Five seeds. What a step takes: results/measurements/speed.md.
"""

import os

from tfbigbatch import sweeps

SEEDS = (0, 1, 2, 3, 4)
# The learning rate of the small batch, which the row scales by the square root.
VARIANTS = {"digits": 0.01, "bert": 0.0053}


def get_sweep(task: str = "digits") -> sweeps.Sweep:
    ramps = sweeps.load(f"{os.path.dirname(os.path.abspath(__file__))}/../ramp/sweep.py:{task}")
    [row] = [row for row in ramps.tuned if row.name == "Muon, large"]
    table = sweeps.Sweep(f"{ramps.title.partition(':')[0]}: Muon's products")
    for dtype in ("float32", "bfloat16"):
        config = sweeps.scaled(row.config, row.config.batch_size, "sqrt", learning_rate=VARIANTS[task])
        config.optimizer.newton_schulz = {"product_dtype": dtype}
        table.add(dtype, config, seeds=SEEDS, tuned="sweep_ramp")
    return table
