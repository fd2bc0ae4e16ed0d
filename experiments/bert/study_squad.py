"""What pretraining on WikiText-2 is worth on SQuAD: a small BERT from its checkpoint and from random values.

    python tools/study.py --study=experiments/bert/study_squad.py --model_dir=runs/bert_squad_study \\
      --data_dir=FOLDER_OF_SQUAD --processes=2 --results=docs/results/bert_squad

Of v1.1's development file the first 38 articles are trained on, and the other 10 scored: no figure here is SQuAD's.
The checkpoint is that of study.py, whose vocabulary is in data/wikitext_1k_32. Either beginning is tried at the same
rates, each a row. Not run yet.
"""

from tfbigbatch import experiment, study

PRETRAINED = "runs/bert_study/LAMB-0.005/batch-64/seed-0"
VOCAB_FILE = "data/wikitext_1k_32/vocab.txt"
RATES = (0.0003, 0.001)
TRAINED_ARTICLES = 38


def get_study():
    table = study.new("SQuAD's development articles, 38 and 10, a BERT of 2 x 64")
    for beginning, checkpoint in (("pretrained", PRETRAINED), ("random", "")):
        for rate in RATES:
            config = experiment.variant_of(__file__, "squad.py")
            config.model = experiment.variant_of(__file__, "wikitext.py").model
            config.mixed_precision = "bfloat16"
            config.model.init_checkpoint = checkpoint
            config.data.update(train_file="dev-v1.1.json", last_train_article=TRAINED_ARTICLES)
            config.data.first_evaluation_article = TRAINED_ARTICLES
            # Short windows: the checkpoint has seen 64 pieces.
            config.data.update(vocab_file=VOCAB_FILE, max_seq_length=192, doc_stride=96, max_query_length=48)
            config.schedule.learning_rate = rate
            table.add(f"{beginning}, {rate}", config, seeds=(0, 1, 2))
    return table
