"""What pretraining on WikiText-2 is worth on RACE, middle schools: a small BERT from its checkpoint and from random.

    python tools/study.py --study=experiments/bert/study_race.py --model_dir=runs/bert_race_study \\
      --data_dir=FOLDER_OF_RACE --processes=2 --results=docs/results/bert_race

Of the 25,421 training questions of middle schools 4,000 are taken, and all 1,436 of the development set scored. The
checkpoint is that of study.py, whose vocabulary is in data/wikitext_1k_32. Either beginning is tried at the same rates,
each a row. Not run yet.
"""

from tfbigbatch import experiment, study

PRETRAINED = "runs/bert_study/LAMB-0.005/batch-64/seed-0"
VOCAB_FILE = "data/wikitext_1k_32/vocab.txt"
RATES = (0.0003, 0.001)


def get_study():
    table = study.new("RACE, middle schools, a BERT of 2 x 64")
    for beginning, checkpoint in (("pretrained", PRETRAINED), ("random", "")):
        for rate in RATES:
            config = experiment.variant_of(__file__, "race.py")
            config.model = experiment.variant_of(__file__, "wikitext.py").model
            config.mixed_precision = "bfloat16"
            config.model.init_checkpoint = checkpoint
            config.data.update(vocab_file=VOCAB_FILE, max_seq_length=128, level="middle", train_questions=4000)
            config.duration, config.schedule.learning_rate = "4 epochs", rate
            table.add(f"{beginning}, {rate}", config, seeds=(0, 1, 2))
    return table
