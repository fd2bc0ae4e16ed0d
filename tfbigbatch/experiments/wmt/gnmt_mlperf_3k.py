"""GNMT with Adam at batch 3,072, by MLPerf's rules: NVIDIA's submission to v0.7.

    python -m tfbigbatch.train --config=experiments/wmt/gnmt_mlperf_3k.py --model_dir=runs/gnmt_mlperf_3k \\
      --data_dir=data/wmt16_en_de --mlperf_log=result.txt

The data: as of gnmt_mlperf_1k.py. Source: config_DGXA100.sh, beside that file's: rate 0.002875,
200 updates of warm-up, halved from update 4,054 on, each 506; 8 epochs at most. The run's length is ours.
Hardware: 8 A100 GPUs (theirs). Expected: 24.0 BLEU on newstest2014 (lower case, intl), where MLPerf stops, before the
run's end (the rules' target). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "gnmt_mlperf_1k.py")
    config.batch_size = config.schedule.batch_size = 3072
    config.duration = "10135 steps"
    config.schedule.learning_rate = 0.002875
    return config
