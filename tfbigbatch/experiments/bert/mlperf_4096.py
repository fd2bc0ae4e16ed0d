"""BERT-Large with LAMB at batch 4,096: MLPerf Training's reference convergence point of 5.1.0.

    python -m tfbigbatch.train --config=experiments/bert/mlperf_4096.py --model_dir=runs/bert_mlperf_4096 \\
      --data_dir=data/bert_prepared --mlperf_log=result.txt --config.model.init_checkpoint=BERT_OF_LENGTH_128

Hardware: a TPU v3 or v4 slice, or GPUs; accumulation_steps by their number. The rules begin with their own checkpoint,
which has seen length 128, and train at length 512 with 76 masked words at most.
Expected: masked-word accuracy 72.0% after 2.8 to 3.0 million examples (the reference). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "mlperf_256.py")
    config.batch_size = config.schedule.batch_size = 4096
    config.duration = "855 steps"
    config.optimizer.beta_1 = 0.66
    config.optimizer.beta_2 = 0.998
    config.optimizer.weight_decay = 0.01
    config.schedule.learning_rate = 0.0024
    return config
