"""LEGW with and without DATE, which may lower its peak, and both at four times LEGW's learning rate.

    tfbigbatch sweep --sweep=results/date_sweep.py:mnist_lstm --data_dir=data/mnist --model_dir=runs/date_mnist_lstm \\
      --results=results/date/mnist_lstm --results_cache=results/date/runs.jsonl.gz

`mnist_lstm`, `alexnet_bn` with data/tiny_imagenet_prepared, and `bert` with data/wikitext_1k_32: the small batch's
recipe as its experiment file has it, scaled by LEGW, for fewer epochs (6 of 25, 10 of 20, 6 of 12). DATE has its
defaults: a probe of 512 training examples, and both noise and blow-ups may lower the peak. The learning rate that is
too high is also the one that DATE takes as tuned. One seed, 3 to 13 minutes a run on a shared CPU core; a run prints
what DATE decided. On a processor without instructions for bfloat16 `bert` needs --config.mixed_precision=float32.
"""

import copy
import dataclasses

from tfbigbatch import sweeps
from tfbigbatch.config import load_config, set_fields

# The learning rate of the recipe that is too high, as a multiple of LEGW's.
TOO_HIGH = 4


@dataclasses.dataclass(frozen=True)
class Task:
    """One application.

    Attributes:
      title: of its table.
      base: the experiment file of the small batch.
      epochs: of every row.
      batches: batch sizes of the rows by LEGW.
      too_high: batch sizes of the rows at too high a learning rate.
      seeds: of every row.
      micro_batch: examples of one pass; 0 for the whole batch.
    """

    title: str
    base: str
    epochs: int
    batches: tuple[int, ...]
    too_high: tuple[int, ...]
    seeds: tuple[int, ...]
    micro_batch: int = 0


TASKS = {
    "mnist_lstm": Task(
        "MNIST-LSTM, 6 epochs",
        "mnist/lstm_small_batch",
        6,
        batches=(2048, 8192),
        too_high=(2048,),
        seeds=(0,),
        micro_batch=256,
    ),
    "alexnet_bn": Task(
        "tiny-imagenet, AlexNet-BN, 10 epochs",
        "tiny_imagenet/alexnet_bn_small_batch",
        10,
        batches=(2048,),
        too_high=(2048,),
        seeds=(0,),
    ),
    "bert": Task(
        "WikiText-2, a BERT of 2 x 64, 6 epochs",
        "bert/wikitext",
        6,
        batches=(2048,),
        too_high=(),
        seeds=(0,),
        micro_batch=256,
    ),
}


def get_sweep(task: str = "mnist_lstm") -> sweeps.Sweep:
    chosen = TASKS[task]
    table = sweeps.Sweep(chosen.title, baseline="LEGW")
    config = load_config(chosen.base)
    few = {"duration": f"{chosen.epochs} epochs", "evaluate_every": f"{chosen.epochs // 2} epochs"}
    set_fields(config, {**few, "checkpoint_every": few["duration"], "keep_best": False, "log_every": "1 epochs"})
    for times, batches in ((1, chosen.batches), (TOO_HIGH, chosen.too_high)):
        name = "LEGW" if times == 1 else f"{times} x LEGW"
        for batch_size in batches:
            rate = times * config.schedule.learning_rate
            scaled = sweeps.scaled(config, batch_size, "legw", learning_rate=rate)
            scaled.accumulation_steps = batch_size // (chosen.micro_batch or batch_size)
            watched = copy.deepcopy(scaled)
            watched.date.enabled = True
            table.add(name, scaled, seeds=chosen.seeds)
            table.add(f"{name} + DATE", watched, seeds=chosen.seeds)
    return table
