"""GNMT with Adam at batch 8,192, by MLPerf's rules: NVIDIA's submission to v0.7.

    python -m tfbigbatch.train --config=experiments/wmt/gnmt_mlperf_8k.py --model_dir=runs/gnmt_mlperf_8k \\
      --data_dir=data/wmt16_en_de --mlperf_log=result.txt

The data: as of gnmt_mlperf_1k.py. Source: config_DGXA100_multi_32x8x32_dist.sh, beside that file's: rate 0.004,
200 updates of warm-up, halved from update 2,259 on, each 283; 12 epochs at most. The run's length is ours.
Hardware: 256 A100 GPUs (theirs). Expected: 24.0 BLEU on newstest2014 (lower case, intl), where MLPerf stops, before the
run's end (the rules' target). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "gnmt_mlperf_1k.py")
    config.batch_size = config.schedule.batch_size = 8192
    config.duration = "5648 steps"
    config.schedule.learning_rate = 0.004
    config.log_every = "10 steps"
    config.steps_per_execution = 10
    return config
