"""What pretraining on WikiText-2 is worth on SST-2 and MRPC: a small BERT from its checkpoint and from random values.

    python tools/study.py --study=experiments/bert/study_glue.py --model_dir=runs/bert_glue_study \\
      --data_dir=FOLDER_OF_GLUE --processes=2 --results=docs/results/bert_glue

The checkpoint is wikitext_128.py's, whose vocabulary is in data/wikitext_1k_128. Either beginning is tried at the same
rates, each a row. Not run yet.
"""

from tfbigbatch import experiment, study

PRETRAINED = "runs/bert_wikitext_128"
VOCAB_FILE = "data/wikitext_1k_128/vocab.txt"
RATES = (0.001, 0.0003)
# Of each task: pieces of a text or pair, and epochs.
TASKS = {"SST-2": (64, "2 epochs"), "MRPC": (128, "5 epochs")}


def get_study():
    table = study.new("GLUE, a BERT of 2 x 64")
    for task, (max_seq_length, duration) in TASKS.items():
        for beginning, checkpoint in (("pretrained", PRETRAINED), ("random", "")):
            for rate in RATES:
                config = experiment.variant_of(__file__, "glue.py")
                config.model.update(experiment.variant_of(__file__, "wikitext.py").model)
                # wikitext_128.py's first token is nearly the same for every text, so its pooler tells nothing.
                config.model.pooling = "mean"
                config.model.dropout = config.model.attention_dropout = 0.1
                config.mixed_precision = "bfloat16"
                config.model.init_checkpoint = checkpoint
                config.data.update(task=task, vocab_file=VOCAB_FILE, max_seq_length=max_seq_length)
                config.duration, config.schedule.learning_rate = duration, rate
                table.add(f"{task}, {beginning}, {rate}", config, seeds=(0, 1, 2))
    return table
