"""Texts and pairs of texts as BERT reads them: [CLS] a [SEP], or [CLS] a [SEP] b [SEP], cut and padded.

Source: Devlin et al. 2019, section 3 and figure 2.
"""

import numpy as np

from tfbigbatch.errors import InputError


def kept(first, second, room):
    """The numbers of pieces that stay of a pair of `first` and `second`, so that both fit into `room`.

    The longer one loses its last piece until they fit, and the second one where they are equal: the rule of
    BERT's reference code.

    Returns:
      (pieces of the first, pieces of the second).
    """
    if first + second <= room:
        return first, second
    half = -(-room // 2)
    if second <= room - half:
        return room - second, second
    if first <= half:
        return first, room - first
    return half, room - half


def pack(vocabulary, firsts, seconds, max_seq_length):
    """Arrays of n texts or pairs.

    Args:
      vocabulary: wordpiece.Vocabulary.
      firsts: n lists of ids.
      seconds: n lists of ids, or None for texts alone.
      max_seq_length: T.

    Returns:
      Dictionary of int32 arrays of [n, T]: 'input_word_ids', padded with [PAD]; 'input_mask', 1 for tokens and 0
      for padding; 'input_type_ids', 1 from the second text to its [SEP] and else 0.

    Raises:
      ValueError: T has no room for a piece of each.
    """
    special = 2 if seconds is None else 3
    room = max_seq_length - special
    if room < special - 1:
        raise InputError(
            f"max_seq_length={max_seq_length}: expected {2 * special - 1} or more, the special tokens and a piece each."
        )
    shape = (len(firsts), max_seq_length)
    ids = np.full(shape, vocabulary.padding, np.int32)
    mask, types = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    for row, first in enumerate(firsts):
        second = [] if seconds is None else seconds[row]
        of_first, of_second = kept(len(first), len(second), room)
        ids[row, 0] = vocabulary.classify
        ids[row, 1 : of_first + 1] = first[:of_first]
        ids[row, of_first + 1] = vocabulary.separate
        length = of_first + 2
        if seconds is not None:
            ids[row, length : length + of_second] = second[:of_second]
            ids[row, length + of_second] = vocabulary.separate
            types[row, length : length + of_second + 1] = 1
            length += of_second + 1
        mask[row, :length] = 1
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}
