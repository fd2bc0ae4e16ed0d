"""BERT-Large with LAMB at batch 16,384: MLPerf Training's reference convergence point of 5.1.0.

    python -m tfbigbatch.train --config=experiments/bert/mlperf_16384.py --model_dir=runs/bert_mlperf_16384 \\
      --data_dir=data/bert_prepared --mlperf_log=result.txt --config.model.init_checkpoint=BERT_OF_LENGTH_128

Hardware: a TPU v3 or v4 slice, or GPUs; accumulation_steps by their number. The rules begin with their own checkpoint,
which has seen length 128, and train at length 512 with 76 masked words at most.
Theirs warms up over 290 updates of which 100 came before the run, on a line that ends above the decay; here over
the 190 that are left, from 0, into a decay that begins there.
Expected: masked-word accuracy 72.0% after 5.4 to 5.8 million examples (the reference). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "mlperf_256.py")
    config.batch_size = config.schedule.batch_size = 16384
    config.duration = "600 steps"
    config.optimizer.beta_1 = 0.75
    config.optimizer.beta_2 = 0.9
    config.optimizer.weight_decay = 0.0166629
    config.schedule.learning_rate = 0.0033
    config.schedule.warmup = "190 steps"
    return config
