"""Small BERTs on WikiText-2 at batch 64: the small batch of the sweep of pretraining, and checkpoints to fine-tune.

    tfbigbatch prepare-bert --source=WIKITEXT_2/train.txt --train_vocab_size=1024 --max_seq_length=32 \\
      --max_predictions_per_seq=5 --validation_fraction=0.03 --output_dir=data/wikitext_1k_32
    tfbigbatch train --config=experiments/bert/wikitext.py --model_dir=runs/bert_wikitext \\
      --data_dir=data/wikitext_1k_32

Expected: masked-LM accuracy on held-out text, as measured with seed 0 on one CPU core.

| variant | network | vocabulary | length | accuracy | minutes |
|---|---|---:|---:|---:|---:|
| 32 | 2 layers of 64 | 1,024 | 32 | 37.7% | 7 |
| 128 | the same, from its checkpoint | 1,024 | 128 | 40.9% | 14 |
| 4k | 2 layers of 128 | 4,096 | 64 | 35.1% | 47 (float32) |

32 is smaller than BERT-tiny, so that minutes of a CPU learn more than how often each token occurs. It runs in
bfloat16: on a CPU without instructions for it use --config.mixed_precision=float32.

128 continues it on longer sequences; results/bert_squad_sweep.py starts from it. At length 32 a segment is seldom
longer than a sentence, and nine pairs in ten are of random sentences; next sentences are not learned (51%):

    tfbigbatch prepare-bert --source=WIKITEXT_2/train.txt --vocab_file=data/wikitext_1k_32/vocab.txt \\
      --max_seq_length=128 --max_predictions_per_seq=20 --validation_fraction=0.03 --output_dir=data/wikitext_1k_128
    tfbigbatch train --config=experiments/bert/wikitext.py:128 --model_dir=runs/bert_wikitext_128 \\
      --data_dir=data/wikitext_1k_128 --config.model.init_checkpoint=runs/bert_wikitext

4k fits more of each passage into as many tokens; results/bert_race_sweep.py starts from it. Its accuracy is over other
tokens:

    tfbigbatch prepare-bert --source=WIKITEXT_2/train.txt --train_vocab_size=4096 --nonext_sentence \\
      --max_seq_length=64 --max_predictions_per_seq=10 --validation_fraction=0.03 --output_dir=data/wikitext_4k_64
    tfbigbatch train --config=experiments/bert/wikitext.py:4k --model_dir=runs/bert_wikitext_4k \\
      --data_dir=data/wikitext_4k_64
"""

from tfbigbatch.config import Config, set_fields, variant_of

SMALLER = {"model.hidden_units": 64, "model.heads": 1, "model.inner_units": 256, "mixed_precision": "bfloat16"}
VARIANTS = {
    "32": {**SMALLER, "duration": "12 epochs"},
    "128": {**SMALLER, "duration": "10 epochs"},
    "4k": {},
}


def get_config(variant: str = "32") -> Config:
    config = variant_of(__file__, "tiny.py")
    # Output bias: as in the runs of results/, and as published. "frequency" is the default of the task.
    config.model.update(dropout=0.0, attention_dropout=0.0, output_bias="zero")
    config.schedule.learning_rate = 0.005
    return set_fields(config, VARIANTS[variant])
