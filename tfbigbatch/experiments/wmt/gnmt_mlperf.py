"""GNMT with Adam at batch 1,024 to 16,384, by MLPerf's rules: NVIDIA's submission to v0.7.

    tfbigbatch train --config=experiments/wmt/gnmt_mlperf.py:1k --model_dir=runs/gnmt_mlperf_1k \\
      --data_dir=data/wmt16_en_de --mlperf_log=result.txt

The data: docs/gnmt.md, prepared with --max_length=73; the rules' 75 count a sentence's begin and end.
Source: mlcommons/training_results_v0.7, NVIDIA/benchmarks/gnmt/implementations/pytorch: run_and_time.sh (1k) and the
config files below. 200 steps of warm-up, then halved four times. The length of a run in steps is ours; theirs ends by
epochs.

| variant | batch | learning rate | halved from step, each | epochs at most | source | GPUs (theirs) |
|---|---:|---:|---|---:|---|---|
| 1k | 1,024 | 0.002 | 10,336, 1,296 | 8 | run_and_time.sh | 8 V100 or later |
| 2k | 2,048 | 0.002 | 6,453, 809 | 8 | config_DGX1.sh | 8 V100 |
| 3k | 3,072 | 0.002875 | 4,054, 506 | 8 | config_DGXA100.sh | 8 A100 |
| 8k | 8,192 | 0.004 | 2,259, 283 | 12 | config_DGXA100_multi_32x8x32_dist.sh | 256 A100 |
| 16k | 16,384 | 0.005 | 1,605, 201 | 14 | config_DGXA100_multi_128x8x16_dist.sh | 1,024 A100 |

Expected: 24.0 BLEU on newstest2014 (lower case, intl), where MLPerf stops, before the run's end (the rules' target).
Not measured here.
"""

from tfbigbatch.config import Config, new_config, set_fields

FEW_STEPS = {"log_every": "10 steps"}
VARIANTS = {
    "1k": {},
    "2k": {"batch_size": 2048, "duration": "16133 steps"},
    "3k": {"batch_size": 3072, "duration": "10135 steps", "schedule.learning_rate": 0.002875},
    "8k": {**FEW_STEPS, "batch_size": 8192, "duration": "5648 steps", "schedule.learning_rate": 0.004},
    "16k": {**FEW_STEPS, "batch_size": 16384, "duration": "4013 steps", "schedule.learning_rate": 0.005},
}


def get_config(variant: str = "1k") -> Config:
    # The model is MLPerf's: 1,024 units, 4 + 4 layers, dropout 0.2, label smoothing 0.1.
    config = new_config("gnmt")
    # As the reference. "frequency" is the default of the task.
    config.model.output_bias = "uniform"

    config.batch_size = 1024
    config.duration = "25840 steps"
    config.schedule.learning_rate = 0.002
    config.schedule.warmup = "200 steps"
    config.schedule.warmup_shape = "exponential"
    config.schedule.decay = "mlperf_gnmt"
    config.schedule.remain = 0.4
    config.schedule.interval = 0.05
    # Adam: AdamW without decay.
    config.optimizer = {"name": "adamw", "weight_decay": 0.0, "epsilon": 1e-8, "global_clipnorm": 5.0}

    config.evaluate_on = "test"
    config.data.lowercase = True
    config.data.tokenize = "intl"
    config.data.max_decoded = 150
    config.stop_at_target = 24.0  # the rules' quality target

    config.mixed_precision = "bfloat16"
    config.evaluation_batch_size = 512
    config.evaluate_every = config.checkpoint_every = "1 epochs"
    config.log_every = "20 steps"
    # Bitwise repeatable kernels are slow, and missing for some, on accelerators.
    config.deterministic = False
    return set_fields(config, VARIANTS[variant])
