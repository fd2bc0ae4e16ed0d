"""PTB-small of Zaremba et al. 2014 (arXiv:1409.2329): two LSTMs of 200, batch 20, 13 epochs; the baseline.

    python tools/prepare_ptb.py --source=FOLDER_WITH_THE_MIKOLOV_FILES --output_dir=data/ptb_prepared
    python -m tfbigbatch.train --config=experiments/ptb/small.py --model_dir=runs/ptb_small \\
      --data_dir=data/ptb_prepared

One CPU core, about an hour. Expected: 114.5 test perplexity (the paper's non-regularized LSTM). Measured: 115.8 after
four epochs, halved from the third on (docs/results/ptb.md); the thirteen are not measured here.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.new("lstm_language_model")

    config.model.window = 20
    config.model.hidden_units = config.model.embedding_units = 200
    config.model.initial_scale = 0.1

    config.batch_size = 20
    config.duration = "13 epochs"
    config.schedule.batch_size = 20
    # The paper's loss sums over a window and ours is the mean, so its rate of 1 and its norm of 5 are of
    # gradients 20 times as large.
    config.schedule.learning_rate = 1.0 * 20
    config.optimizer = {"name": "momentum", "momentum": 0.0, "global_clipnorm": 5.0 / 20}
    # Constant for four epochs, then halved at each.
    config.schedule.decay = "exponential"
    config.schedule.factor = 0.5
    config.schedule.start = "3 epochs"
    config.schedule.every = "1 epochs"

    config.evaluation_batch_size = 20
    config.evaluate_every = "1 epochs"
    config.checkpoint_every = "1 epochs"
    config.log_every = "200 steps"
    config.steps_per_execution = 10
    return config
