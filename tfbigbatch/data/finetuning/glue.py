"""GLUE's nine tasks as arrays of the texts' pieces, in memory."""

import numpy as np
from absl import logging

from tfbigbatch.data.finetuning import glue_rows, text_pairs
from tfbigbatch.data.in_memory.features import Features

_SHOWN = 5


def load(name, split, data_dir, tokenizer, *, max_seq_length=128):
    """The Features of a task's split.

    Rows that had to be left out are logged, with their lines.

    Args:
      name: the task, as 'MRPC'.
      split: 'train', 'dev' or 'test'; MNLI has 'dev_matched', 'dev_mismatched', 'test_matched' and
        'test_mismatched'.
      data_dir: GLUE's folder, as glue_rows tells.
      tokenizer: wordpiece.Tokenizer.
      max_seq_length: T; of longer texts the longer one of a row is cut first.

    Returns:
      Features of 'input_word_ids', 'input_mask' and 'input_type_ids', int32 [n, T]. Labels are [n]: int32, the
      numbers of glue_rows.TASKS's classes, or of STS-B float32, from 0 to 5. Where the test set has none, they are
      all -1, or NaN.

    Raises:
      ValueError: as glue_rows.read; or max_seq_length is too small.
    """
    rows, classes = glue_rows.read(data_dir, name, split), glue_rows.TASKS[name].classes
    source = glue_rows.path(data_dir, name, split)
    for words in rows.bad[:_SHOWN]:
        logging.warning("%s: left out %s", source, words)
    if len(rows.bad) > _SHOWN:
        logging.warning("%s: left out %d more rows", source, len(rows.bad) - _SHOWN)
    parts = [[tokenizer.ids(text) for text in texts] for texts in zip(*rows.texts)]
    packed = text_pairs.pack(tokenizer.vocabulary, parts[0], parts[1] if len(parts) > 1 else None, max_seq_length)
    dtype, unknown = (np.float32, np.nan) if classes is None else (np.int32, -1)
    labels = np.full(len(rows.texts), unknown, dtype) if rows.labels is None else np.array(rows.labels, dtype)
    return Features(packed, labels, classes and len(classes), source)
