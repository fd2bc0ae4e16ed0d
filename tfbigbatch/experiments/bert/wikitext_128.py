"""wikitext.py's BERT goes on with sequences of 128: what study_squad.py begins from.

    python tools/prepare_bert.py --source=WIKITEXT_2/train.txt --vocab_file=data/wikitext_1k_32/vocab.txt \\
      --max_seq_length=128 --max_predictions_per_seq=20 --validation_share=0.03 --output_dir=data/wikitext_1k_128
    python -m tfbigbatch.train --config=experiments/bert/wikitext_128.py --model_dir=runs/bert_wikitext_128 \\
      --data_dir=data/wikitext_1k_128 --config.model.init_checkpoint=runs/bert_wikitext

At length 32 a segment is seldom longer than a sentence, and nine pairs in ten are of random sentences. One CPU core,
fourteen minutes. Expected: masked-LM accuracy of 40.9% on held-out text (seed 0); next sentences are not learned, 51%.
"""

from tfbigbatch import experiment


def get_config():
    config = experiment.variant_of(__file__, "wikitext.py")
    config.duration = "10 epochs"
    return config
