"""A BERT of two layers of 64 on WikiText-2, batch 64: the small batch of the study of pretraining.

    python tools/prepare_bert.py --source=WIKITEXT_2/train.txt --train_vocab_size=1024 --max_seq_length=32 \\
      --max_predictions_per_seq=5 --validation_share=0.03 --output_dir=data/wikitext_1k_32
    python -m tfbigbatch.train --config=experiments/bert/wikitext.py --model_dir=runs/bert_wikitext \\
      --data_dir=data/wikitext_1k_32

Smaller than BERT-tiny, on a vocabulary of 1,024 tokens and sequences of 32, so that minutes of a CPU learn more than
how often each token comes. In bfloat16: for a CPU without instructions for it, --config.mixed_precision=float32. One
CPU core, seven minutes. Expected: masked-LM accuracy of 37.7% on held-out text (seed 0).
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "tiny.py")
    config.model.update(hidden_units=64, heads=1, inner_units=256, dropout=0.0, attention_dropout=0.0)
    config.mixed_precision = "bfloat16"
    config.duration = "12 epochs"
    config.schedule.learning_rate = 0.005
    return config
