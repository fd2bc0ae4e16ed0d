"""BERT-Large with LAMB at MLPerf Training's reference convergence points of 5.1.0: batch 256, 4,096 and 16,384.

    tfbigbatch train --config=experiments/bert/mlperf.py:4k --model_dir=runs/bert_mlperf_4096 \\
      --data_dir=data/bert_prepared --mlperf_log=result.txt --config.model.init_checkpoint=BERT_OF_LENGTH_128

Expected: masked-word accuracy of 72.0%, where MLPerf stops (the reference). Not measured here.

| variant | batch | examples to the target, in millions |
|---|---:|---|
| 256 | 256 | 2.5 to 2.8 |
| 4k | 4,096 | 2.8 to 3.0 |
| 16k | 16,384 | 5.4 to 5.8 |

Hardware: a TPU v3 or v4 slice, or GPUs; accumulation_steps by their number. The rules begin with their own checkpoint,
which has seen length 128, and train at length 512 with at most 76 masked words. At 16,384 the reference warms up over
290 steps, 100 of them before the run, on a line that ends above the decay; here over the remaining 190, from 0, into a
decay that begins there.
"""

from tfbigbatch.config import Config, set_fields, variant_of

VARIANTS = {
    "256": {},
    "4k": {
        "batch_size": 4096,
        "schedule.batch_size": 4096,
        "duration": "855 steps",
        "optimizer.beta_1": 0.66,
        "optimizer.beta_2": 0.998,
        "schedule.learning_rate": 0.0024,
    },
    "16k": {
        "batch_size": 16384,
        "schedule.batch_size": 16384,
        "duration": "600 steps",
        "optimizer.beta_1": 0.75,
        "optimizer.beta_2": 0.9,
        "optimizer.weight_decay": 0.0166629,
        "schedule.learning_rate": 0.0033,
        "schedule.warmup": "190 steps",
    },
}


def get_config(variant: str = "256") -> Config:
    config = variant_of(__file__, "lamb.py:512")
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

    # The rules evaluate from 3,000,000 examples on and then each 500,000; here each 500,000 from the start.
    config.evaluation_batch_size = 1000
    config.evaluate_every = config.checkpoint_every = "500000 examples"
    config.log_every = "20 steps"
    return set_fields(config, VARIANTS[variant])
