"""BERT-tiny, two layers of 128, on WikiText-2 with a vocabulary of 4,096 and sequences of 64, batch 64.

    python tools/prepare_bert.py --source=WIKITEXT_2/train.txt --train_vocab_size=4096 --nonext_sentence \\
      --max_seq_length=64 --max_predictions_per_seq=10 --validation_share=0.03 --output_dir=data/wikitext_4k_64
    python -m tfbigbatch.train --config=experiments/bert/wikitext_4k.py --model_dir=runs/bert_wikitext_4k \\
      --data_dir=data/wikitext_4k_64

More of each passage than wikitext.py's fits into as many pieces: study_race.py begins from it. One CPU core, 47
minutes in float32. Expected: masked-LM accuracy of 35.1% on held-out text (seed 0), of other pieces than wikitext.py's.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "tiny.py")
    config.model.update(dropout=0.0, attention_dropout=0.0)
    config.schedule.learning_rate = 0.005
    return config
