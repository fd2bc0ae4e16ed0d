"""LeNet-5 on MNIST, one worker at batch 32, two epochs: what the workers of Adasum's sweep share out.

    tfbigbatch train --config=experiments/mnist/lenet_small_batch.py --model_dir=runs/lenet \\
      --data_dir=FOLDER_WITH_THE_FOUR_IDX_FILES

Without --data_dir, keras.datasets downloads the files. One CPU core, about half a minute.
Measured: 98.9% at rates of 0.02 and 0.04 (results/adasum/runs.jsonl.gz).
"""

from tfbigbatch.config import Config, new_config


def get_config() -> Config:
    config = new_config("mnist_lenet")

    config.batch_size = 32
    config.duration = "2 epochs"
    config.optimizer = {"name": "momentum", "momentum": 0.9}
    config.schedule.batch_size = 32
    config.schedule.learning_rate = 0.02
    config.schedule.warmup_epochs = 0.1
    config.schedule.decay = "linear"

    config.evaluation_batch_size = 2000
    config.evaluate_every = "0.25 epochs"
    config.checkpoint_every = "2 epochs"
    config.log_every = "100 steps"
    return config
