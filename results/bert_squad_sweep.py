"""What pretraining on WikiText-2 is worth on SQuAD: a small BERT from its checkpoint and from random values.

    tfbigbatch sweep --sweep=results/bert_squad_sweep.py --model_dir=runs/bert_squad_sweep \\
      --data_dir=FOLDER_OF_SQUAD --processes=2 --results=results/bert_squad

Of v1.1's development file the first 38 articles are trained on, and the other 10 scored: no figure here is SQuAD's.
The checkpoint is wikitext.py:128's, whose vocabulary is in data/wikitext_1k_128. Both beginnings have the same
rate, the only one that was tried.
"""

from tfbigbatch import sweeps
from tfbigbatch.config import load_config

PRETRAINED = "runs/bert_wikitext_128"
VOCAB_FILE = "data/wikitext_1k_128/vocab.txt"
RATE = 0.001
TRAINED_ARTICLES = 38


def get_sweep() -> sweeps.Sweep:
    table = sweeps.Sweep("SQuAD's development articles, 38 and 10, a BERT of 2 x 64")
    for beginning, checkpoint in (("pretrained", PRETRAINED), ("random", "")):
        config = load_config("bert/finetune:squad")
        pretrained = load_config("bert/wikitext").model
        config.model.update({field: pretrained[field] for field in config.model})
        config.model.dropout = config.model.attention_dropout = 0.1
        config.mixed_precision = "bfloat16"
        config.model.init_checkpoint = checkpoint
        config.data.update(train_file="dev-v1.1.json", last_train_article=TRAINED_ARTICLES)
        config.data.first_evaluation_article = TRAINED_ARTICLES
        # Short windows: the checkpoint has seen 128 pieces.
        config.data.update(vocab_file=VOCAB_FILE, max_seq_length=192, doc_stride=128, max_query_length=48)
        config.duration, config.schedule.learning_rate = "2 epochs", RATE
        table.add(f"{beginning}, {RATE}", config, seeds=(0, 1, 2))
    return table
