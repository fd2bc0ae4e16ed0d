"""GNMT with Adam at batch 2,048, by MLPerf's rules: NVIDIA's submission to v0.7.

    python -m tfbigbatch.train --config=experiments/wmt/gnmt_mlperf_2k.py --model_dir=runs/gnmt_mlperf_2k \\
      --data_dir=data/wmt16_en_de --mlperf_log=result.txt

The data: as of gnmt_mlperf_1k.py. Source: config_DGX1.sh, beside that file's: rate 0.002,
200 updates of warm-up, halved from update 6,453 on, each 809; 8 epochs at most. The run's length is ours.
Hardware: 8 V100 GPUs (theirs). Expected: 24.0 BLEU on newstest2014 (lower case, intl), where MLPerf stops, before the
run's end (the rules' target). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "gnmt_mlperf_1k.py")
    config.batch_size = config.schedule.batch_size = 2048
    config.duration = "16133 steps"
    config.schedule.learning_rate = 0.002
    return config
