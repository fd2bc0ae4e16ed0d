"""GNMT with Adam at batch 1,024, by MLPerf's rules: the defaults of NVIDIA's submission to v0.7.

    python -m tfbigbatch.train --config=experiments/wmt/gnmt_mlperf_1k.py --model_dir=runs/gnmt_mlperf_1k \\
      --data_dir=data/wmt16_en_de --mlperf_log=result.txt

The data: docs/translation_data.md, prepared with --max_length=73; the rules' 75 count a sentence's begin and end.
Source: mlcommons/training_results_v0.7, NVIDIA/benchmarks/gnmt/implementations/pytorch/run_and_time.sh: 128 sentences a
device, rate 0.002, 200 updates of warm-up, halved four times from update 10,336 on, each 1,296. These are 0.4 and 0.05
of a run of 25,840 updates, which is ours; theirs ends by epochs, 8 at most.
Hardware: 8 GPUs (V100 or later) or TPU v3 chips. Expected: 24.0 BLEU on newstest2014 (lower case, intl), where MLPerf
stops, before the run's end (the rules' target). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    # The model is MLPerf's as it stands: 1,024 units, 4 + 4 layers, dropout 0.2, label smoothing 0.1.
    config = experiment.new("gnmt")

    config.batch_size = config.schedule.batch_size = 1024
    config.duration = "25840 steps"
    config.schedule.learning_rate = 0.002
    config.schedule.warmup = "200 steps"
    config.schedule.rise = "exponential"
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
    config.steps_per_execution = 20
    # Bitwise repeatable kernels are slow, and missing for some, on accelerators.
    config.deterministic = False
    return config
