"""What pretraining on WikiText-2 is worth on RACE, middle schools: a small BERT from its checkpoint and from random.

    tfbigbatch sweep --sweep=results/bert_race_sweep.py --model_dir=runs/bert_race_sweep \\
      --data_dir=FOLDER_OF_RACE --processes=2 --results=results/bert_race

Trained on 4,000 questions of middle schools for three epochs, and on all 25,421 for one; all 1,436 of the development
set are scored. In 64 pieces little of a passage is left. The checkpoint is wikitext.py:4k's, whose vocabulary is in
data/wikitext_4k_64.
"""

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

PRETRAINED = "runs/bert_wikitext_4k"
VOCAB_FILE = "data/wikitext_4k_64/vocab.txt"
# Pretrained weights are two to five times as large as random ones: LAMB moves each by its own norm.
LAMB = {
    "name": "lamb",
    "epsilon": 1e-6,
    "weight_decay": 0.01,
    "exclude_from_weight_decay": [],
    "global_clipnorm": 1.0,
}
RATE = 0.002
# Questions, of which 0 are all, and epochs.
TRAINED_ON = {"4,000 questions": (4000, "3 epochs"), "all questions": (0, "1 epochs")}


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("RACE, middle schools, BERT-tiny")
    for amount, (questions, duration) in TRAINED_ON.items():
        for beginning, checkpoint in (("pretrained", PRETRAINED), ("random", "")):
            config = load_config("bert/finetune:race")
            pretrained = load_config("bert/wikitext:4k").model
            config.model.update({field: pretrained[field] for field in config.model if field in pretrained})
            # Pretrained without next sentences, the pooler knows nothing.
            config.model.pooling = "mean"
            config.model.init_checkpoint = checkpoint
            config.optimizer = LAMB
            config.data.update(vocab_file=VOCAB_FILE, max_seq_length=64, level="middle", train_questions=questions)
            config.duration, config.schedule.learning_rate = duration, RATE
            table.add(f"{amount}, {beginning}", config, seeds=(0, 1, 2))
    return table
