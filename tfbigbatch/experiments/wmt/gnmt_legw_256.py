"""GNMT with Adam at batch 256: the small batch that LEGW (You et al. 2019, arXiv:1901.08256) carries to 4,096.

    python -m tfbigbatch.train --config=experiments/wmt/gnmt_legw_256.py --model_dir=runs/gnmt_legw_256 \\
      --data_dir=data/wmt16_en_de

The data: docs/translation_data.md. The paper carries GNMT to 16 times the batch at the same epochs: the rate by the
square root, the epochs of the warm-up in proportion. The rule is the paper's. Its table was not at hand, so that rate,
warm-up and epochs are ours: the defaults of MLPerf's reference (mlcommons/training, retired_benchmarks/gnmt, train.py;
128 sentences a device), rate 0.001, 200 updates of warm-up, 8 epochs, halved four times in the last third. Not tuned.
Hardware: 8 GPUs or TPU v3 chips. Expected: no figure is published for this recipe; MLPerf's target is 24.0 BLEU on
newstest2014 (lower case, intl). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.new("gnmt")

    config.batch_size = config.schedule.batch_size = 256
    config.duration = "8 epochs"
    config.schedule.rule = "legw"
    config.schedule.learning_rate = 0.001
    config.schedule.warmup = "200 steps"
    config.schedule.decay = "mlperf_gnmt"
    # Adam: AdamW without decay.
    config.optimizer = {"name": "adamw", "weight_decay": 0.0, "epsilon": 1e-8, "global_clipnorm": 5.0}

    # Chosen on 'validation', scored on 'test' afterwards: --mode=eval --config.evaluate_on=test.
    config.evaluate_on = "validation"
    config.data.lowercase = True
    config.data.tokenize = "intl"
    config.data.max_decoded = 150

    config.mixed_precision = "bfloat16"
    config.evaluation_batch_size = 512
    config.evaluate_every = config.checkpoint_every = "1 epochs"
    config.log_every = "50 steps"
    config.steps_per_execution = 50
    # Bitwise repeatable kernels are slow, and missing for some, on accelerators.
    config.deterministic = False
    return config
