"""All 60,000 images of MNIST in each step, 35 steps: the network and task of LAMB's authors (fastalgo/mnist_tpu).

    tfbigbatch train --config=experiments/mnist/cnn_full_batch.py --model_dir=runs/mnist_full_batch \\
      --data_dir=FOLDER_WITH_THE_FOUR_IDX_FILES

One CPU core, about 20 minutes in bfloat16; on a CPU without instructions for it use
--config.mixed_precision=float32. Expected: 98.87% with LAMB, published after hundreds of trials chosen on the test
set; momentum gets 92.4 to 93.7%, LARS 97.7%. The learning rate, warm-up and decay are those of that LAMB.
experiments/few_steps compares optimizers on it.
"""

from tfbigbatch.config import Config, new_config


def get_config() -> Config:
    config = new_config("mnist_cnn")

    config.batch_size = 60_000
    # On a CPU a large batch is slower than its parts.
    config.accumulation_steps = 60
    config.duration = "35 steps"
    config.mixed_precision = "bfloat16"
    config.optimizer = {"name": "lamb", "weight_decay": 0.0, "exclude_from_weight_decay": []}
    config.schedule.batch_size = 60_000
    config.schedule.learning_rate = 0.11
    config.schedule.warmup_epochs = 7.0
    config.schedule.decay = "polynomial"
    config.schedule.power = 0.5

    config.evaluation_batch_size = 1000
    config.evaluate_every = "5 steps"
    config.checkpoint_every = "5 steps"
    config.log_every = "1 steps"
    return config
