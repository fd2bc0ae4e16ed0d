"""Where the loss of few steps is: a small GNMT on Multi30k for two epochs, in 906 steps of 64 or 113 of 512.

    python tools/study.py --study=experiments/multi30k/study_plateau.py --model_dir=runs/multi30k_plateau \\
      --data_dir=data/multi30k_en_de --ended_runs=results/why/multi30k_plateau_runs.jsonl
    python tools/explain.py --study=experiments/multi30k/study_plateau.py --model_dir=runs/multi30k_plateau \\
      --results=results/why/multi30k_plateau

Each row without and with the output bias at the log of the tokens' frequency. Two epochs, a sixth of
gnmt_small_batch.py's twelve, are three minutes of a core. Learning rates: the recipe's at 64, LEGW's at 512 and, for
Muon, the best of few trials at 1,024. "2 x longer" and "4 x longer" have four and eight epochs. The loss is the mean
over tokens and not over sentences, so that steps of short and of long sentences compare. One seed. What the runs say:
docs/why-large-batches-lose-accuracy.md.
"""

from tfbigbatch import experiment
from tfbigbatch.studies import study

SMALL, LARGE, MICRO_BATCH = 64, 512, 128
EPOCHS = 2
RATE = 0.006  # of AdamW at SMALL; at LARGE by LEGW
# Gradients of a mean over tokens are a thirteenth of those over sentences, which are clipped at 5.
CLIP = 0.4
ADAMW = {"name": "adamw", "weight_decay": 0.0, "beta_2": 0.98, "global_clipnorm": CLIP}
ROWS = (
    ("AdamW", SMALL, ADAMW, RATE),
    ("AdamW", LARGE, ADAMW, RATE * (LARGE / SMALL) ** 0.5),
    ("Muon", LARGE, {"name": "muon", "beta_2": 0.98, "global_clipnorm": CLIP}, 0.03),
)
BIASES = {"uniform": "", "frequency": ", bias"}
LONGER = (2, 4)


def get_study() -> study.Study:
    table = study.new("Multi30k, a small GNMT, 2 epochs", baseline="AdamW, bias, small batch")
    for method, batch_size, optimizer, rate in ROWS:
        for bias, suffix in BIASES.items():
            name = f"{method}{suffix}{', small batch' if batch_size == SMALL else ''}"
            table.add(name, _config(batch_size, optimizer, rate, bias), tuned="at 64" if method == "AdamW" else "there")
    for method, batch_size, optimizer, rate in ROWS[1:]:
        for times in LONGER:
            config = _config(batch_size, optimizer, rate, "frequency", times)
            table.add(f"{method}, bias, {times} x longer", config, tuned="at 64" if method == "AdamW" else "there")
    return table


def _config(batch_size, optimizer, rate, bias, times=1):
    config = experiment.variant_of(__file__, "gnmt_small_batch.py")
    config.batch_size = config.schedule.batch_size = batch_size
    # On a CPU a large batch is slower than its parts: its logits leave the caches.
    config.accumulation_steps = max(1, batch_size // MICRO_BATCH)
    config.model.output_bias = bias
    config.model.loss_over = "tokens"
    config.optimizer = optimizer
    config.schedule.learning_rate = rate
    config.schedule.warmup_epochs = EPOCHS * times / 12
    config.duration = config.evaluate_every = config.checkpoint_every = f"{EPOCHS * times} epochs"
    config.evaluate_on = "validation"
    # The loss is of interest here; a short search ends sooner.
    config.data.beam_size, config.data.max_decoded = 1, 40
    config.keep_best = False
    # Each step at the large batch, and windows of as many examples at the small one.
    config.log_every = f"{LARGE // batch_size} steps"
    return config
