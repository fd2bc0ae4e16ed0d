"""What pretraining on WikiText-2 is worth on RACE, middle schools: a small BERT from its checkpoint and from random.

    python tools/study.py --study=experiments/bert/study_race.py --model_dir=runs/bert_race_study \\
      --data_dir=FOLDER_OF_RACE --processes=2 --results=docs/results/bert_race

All 25,421 training questions of middle schools, two epochs, and all 1,436 of the development set scored. In 64 pieces
little of a passage is left. The checkpoint is wikitext_128.py's, whose vocabulary is in data/wikitext_1k_128. Not run
yet.
"""

from tfbigbatch import experiment, study

PRETRAINED = "runs/bert_wikitext_128"
VOCAB_FILE = "data/wikitext_1k_128/vocab.txt"
RATE = 0.0005


def get_study():
    table = study.new("RACE, middle schools, a BERT of 2 x 64")
    for beginning, checkpoint in (("pretrained", PRETRAINED), ("random", "")):
        config = experiment.variant_of(__file__, "race.py")
        config.model.update(experiment.variant_of(__file__, "wikitext.py").model)
        # wikitext_128.py's first token is nearly the same for every text, so its pooler tells nothing.
        config.model.pooling = "mean"
        config.model.dropout = config.model.attention_dropout = 0.1
        config.mixed_precision = "bfloat16"
        config.model.init_checkpoint = checkpoint
        config.data.update(vocab_file=VOCAB_FILE, max_seq_length=64, level="middle")
        config.duration, config.schedule.learning_rate = "2 epochs", RATE
        table.add(beginning, config, seeds=(0, 1, 2))
    return table
