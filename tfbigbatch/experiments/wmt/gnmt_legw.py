"""GNMT with Adam and Muon at batch 256 to 4,096, by LEGW (You et al. 2019, arXiv:1901.08256).

    tfbigbatch train --config=experiments/wmt/gnmt_legw.py:4k --model_dir=runs/gnmt_legw_4k \\
      --data_dir=data/wmt16_en_de

The data: docs/gnmt.md. The paper scales GNMT to 16 times the batch at the same epochs: the learning rate by
the square root, the epochs of warm-up in proportion (200 steps at each batch). The rule is the paper's; learning rate,
warm-up and epochs at 256 are ours, the defaults of MLPerf's reference (mlcommons/training, retired_benchmarks/gnmt,
train.py; 128 sentences a device): 0.001, 200 steps, 8 epochs, halved four times in the last third. Not tuned.

| variant | batch | optimizer, learning rate | GPUs or TPU v3 chips |
|---|---:|---|---:|
| 256 | 256 | Adam, 0.001 | 8 |
| 512 | 512 | Adam, 0.00141 | 8 |
| 1k | 1,024 | Adam, 0.002 | 8 |
| 2k | 2,048 | Adam, 0.00283 | 16 |
| 4k | 4,096 | Adam, 0.004 | 32 |
| muon_4k | 4,096 | Muon, 0.03, embedding and output layer by Adam | 32 |

The learning rate of muon_4k is where the trials of the small GNMT on Multi30k at 1,024 begin (few_steps/sweep.py).
Expected: no figure is published for these recipes; MLPerf's target is 24.0 BLEU on newstest2014 (lower case, intl), and
the paper claims the BLEU of 256 up to 4,096. Not measured here.
"""

from tfbigbatch.config import Config, set_fields, variant_of

VARIANTS = {
    "256": {},
    "512": {"batch_size": 512},
    "1k": {"batch_size": 1024},
    "2k": {"batch_size": 2048},
    "4k": {"batch_size": 4096},
    "muon_4k": {
        "batch_size": 4096,
        "schedule.learning_rate": 0.0075,
        "optimizer": {"name": "muon", "global_clipnorm": 5.0},
        "model.output_bias": "frequency",
    },
}


def get_config(variant: str = "256") -> Config:
    config = variant_of(__file__, "gnmt_mlperf.py:1k")
    config.batch_size = config.schedule.batch_size = 256
    config.duration = "8 epochs"
    config.schedule.rule = "legw"
    config.schedule.learning_rate = 0.001
    config.schedule.warmup_shape = "linear"
    config.schedule.remain = 2 / 3
    config.schedule.interval = 0.0
    # Chosen on 'validation', scored on 'test' afterwards: --mode=eval --config.evaluate_on=test.
    config.evaluate_on = "validation"
    config.stop_at_target = 0.0
    config.log_every = "50 steps"
    return set_fields(config, VARIANTS[variant])
