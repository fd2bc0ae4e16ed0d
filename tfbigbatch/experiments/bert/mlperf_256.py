"""BERT-Large with LAMB at batch 256: MLPerf Training's reference convergence point of 5.1.0.

    python -m tfbigbatch.train --config=experiments/bert/mlperf_256.py --model_dir=runs/bert_mlperf_256 \\
      --data_dir=data/bert_prepared --mlperf_log=result.txt --config.model.init_checkpoint=BERT_OF_LENGTH_128

Hardware: a TPU v3 or v4 slice, or GPUs; accumulation_steps by their number. The rules begin with their own checkpoint,
which has seen length 128, and train at length 512 with 76 masked words at most.
Expected: masked-word accuracy 72.0% after 2.5 to 2.8 million examples (the reference). Not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "lamb_512.py")
    config.batch_size = config.schedule.batch_size = 256
    config.phases = ()
    config.data.folder = "512"
    config.duration = "13700 steps"
    config.optimizer.beta_1 = 0.9
    config.optimizer.beta_2 = 0.999
    config.optimizer.weight_decay = 0.01
    config.schedule.learning_rate = 0.00035
    config.schedule.rule = "none"
    config.schedule.warmup = ""
    config.stop_at_target = 0.72  # the rules' quality target

    # By the rules from 3,000,000 examples on and at each 500,000; here at each from the start.
    config.evaluation_batch_size = 1000
    config.evaluate_every = config.checkpoint_every = "500000 examples"
    config.log_every = "20 steps"
    return config
