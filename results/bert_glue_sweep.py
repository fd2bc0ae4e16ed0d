"""What pretraining on WikiText-2 is worth on SST-2 and MRPC: a small BERT from its checkpoint and from random values.

    tfbigbatch sweep --sweep=results/bert_glue_sweep.py --model_dir=runs/bert_glue_sweep \\
      --data_dir=FOLDER_OF_GLUE --processes=2 --results=results/bert_glue

The checkpoint is wikitext.py's, whose vocabulary is in data/wikitext_1k_32. Either beginning is tried at the same
rates, each a row.
"""

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

PRETRAINED = "runs/bert_wikitext"
VOCAB_FILE = "data/wikitext_1k_32/vocab.txt"
# Pretrained weights are two to five times as large as random ones: LAMB moves each by its own norm.
LAMB = {
    "name": "lamb",
    "epsilon": 1e-6,
    "weight_decay": 0.01,
    "exclude_from_weight_decay": [],
    "global_clipnorm": 1.0,
}
# Of each task: pieces of a text or pair, epochs, and rates.
TASKS = {"SST-2": (64, "1 epochs", (0.002, 0.004)), "MRPC": (128, "3 epochs", (0.001, 0.002))}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("GLUE, a BERT of 2 x 64")
    for task, (max_seq_length, duration, rates) in TASKS.items():
        for beginning, checkpoint in (("pretrained", PRETRAINED), ("random", "")):
            for rate in rates:
                config = load_config("bert/finetune:glue")
                pretrained = load_config("bert/wikitext").model
                config.model.update({field: pretrained[field] for field in config.model if field in pretrained})
                config.model.pooling = "mean"
                config.model.init_checkpoint = checkpoint
                config.optimizer = LAMB
                config.data.update(task=task, vocab_file=VOCAB_FILE, max_seq_length=max_seq_length)
                config.duration, config.schedule.learning_rate = duration, rate
                table.add(f"{task}, {beginning}, {rate}", config, seeds=(0, 1, 2))
    return table
