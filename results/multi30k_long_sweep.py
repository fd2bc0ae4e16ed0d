"""A small GNMT on Multi30k at batch 64 and 1,024, 30 epochs each: what LEGW loses where it has more updates.

    tfbigbatch sweep --sweep=results/multi30k_long_sweep.py --model_dir=runs/multi30k_long \\
      --data_dir=data/multi30k_en_de --processes=2 --results=results/multi30k_long \\
      --results_cache=results/runs.jsonl.gz

BLEU on test2016, every 6 epochs; 849 updates at 1,024. The rate and warm-up at 64 are those of
results/multi30k_sweep.py's 12 epochs. Measured, seed 0: results/multi30k_long.json. Some 40 minutes of a CPU core each.
"""

from tfbigbatch import sweeps
from tfbigbatch.config import load_config


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("Multi30k, a small GNMT, 30 epochs", baseline="baseline")
    config = load_config("multi30k/gnmt_small_batch")
    config.duration = "30 epochs"
    config.evaluate_every = "6 epochs"
    table.add("baseline", config, tuned="at 64")
    config = sweeps.scaled(config, 1024, "legw")
    config.accumulation_steps = 8  # micro-batches of 128, as in results/multi30k_sweep.py
    config.log_every = "1 epochs"
    table.add("LEGW", config, tuned="at 64")
    return table
