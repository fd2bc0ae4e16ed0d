"""Adasum beside averaging and summing: MNIST-LSTM with 16 workers of batch 128, five epochs.

    python tools/study.py --study=experiments/mnist/study_adasum_lstm.py --model_dir=runs/adasum_lstm \\
      --data_dir=FOLDER_WITH_THE_FOUR_IDX_FILES --processes=2 --results=docs/results/adasum/mnist_lstm

147 updates at 2,048. Each optimizer's rate for one worker is that of study.py (Adam's carried back to 128), and is
kept. Rows "x2" have twice that rate, for averaging and for Adasum. Not run yet.
"""

from tfbigbatch import experiment, study

WORKERS = 16
SEEDS = (0, 1, 2)
OPTIMIZERS = {
    "momentum": ({"name": "momentum", "momentum": 0.9, "global_clipnorm": 0.05}, 1.6),
    "Adam": ({"name": "adamw", "weight_decay": 0.0, "global_clipnorm": 1.0}, 0.002),
    "LAMB": ({"name": "lamb", "weight_decay": 0.0, "global_clipnorm": 1.0}, 0.005),
}


def get_study():
    table = study.new("MNIST-LSTM, 5 epochs, 16 workers of batch 128", target=0.98)
    base = experiment.variant_of(__file__, "lstm_small_batch.py")
    base.duration = "5 epochs"
    for name, (optimizer, rate) in OPTIMIZERS.items():
        one = study.carried(base, base.batch_size, "none", optimizer=optimizer, learning_rate=rate)
        table.add(name, one, seeds=SEEDS, tuned="at 128")
        one.log_every = "1 epochs"
        one.steps_per_execution = 1
        study.add_workers(table, name, one, WORKERS, seeds=SEEDS, tuned="at 128")
        twice = study.carried(one, one.batch_size * WORKERS, "none", learning_rate=2 * rate)
        table.add(f"{name}, average, x2", twice, seeds=SEEDS, tuned="not")
        table.add(f"{name}, Adasum, x2", study.with_adasum(twice, WORKERS), seeds=SEEDS, tuned="not")
    return table
