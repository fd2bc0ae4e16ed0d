"""Single texts and pairs as BERT's inputs: [CLS] a [SEP] or [CLS] a [SEP] b [SEP], truncated and padded.

Source: Devlin et al. 2019, section 3 and figure 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfbigbatch.data.tokenizer import Vocabulary
from tfbigbatch.errors import InputError


def kept(first: int, second: int, room: int) -> tuple[int, int]:
    """The tokens kept of each text of a pair so that both fit into `room`.

    The longer text loses its last token until they fit, the second one on a tie, as in BERT's reference code.
    """
    # The second may have half of the room, rounded down, and what the first leaves.
    of_second = min(second, max(room // 2, room - first))
    return min(first, room - of_second), of_second


def pack(
    vocabulary: Vocabulary,
    firsts: Sequence[Sequence[int] | np.ndarray],
    seconds: Sequence[Sequence[int] | np.ndarray] | None,
    max_seq_length: int,
) -> dict[str, np.ndarray]:
    """Padded arrays of n texts or pairs.

    Args:
      vocabulary: has the special tokens.
      firsts: ids of the n first texts.
      seconds: ids of the n second texts, or None for single texts.
      max_seq_length: T.

    Returns:
      int32 [n, T] each: 'input_word_ids', padded with [PAD]; 'input_mask', 1 for tokens and 0 for padding;
      'input_type_ids', 1 for the second text and its [SEP], else 0.

    Raises:
      ValueError: T has no room for a token of each.
    """
    special = 2 if seconds is None else 3
    room = max_seq_length - special
    if room < special - 1:
        raise InputError(
            f"max_seq_length={max_seq_length}: expected {2 * special - 1} or more, the special tokens and a token each."
        )
    ids = np.full((len(firsts), max_seq_length), vocabulary.padding, np.int32)
    mask, types = np.zeros_like(ids), np.zeros_like(ids)
    for row, first in enumerate(firsts):
        second: Sequence[int] | np.ndarray = [] if seconds is None else seconds[row]
        of_first, of_second = kept(len(first), len(second), room)
        ids[row, 0] = vocabulary.classify
        ids[row, 1 : of_first + 1] = first[:of_first]
        ids[row, of_first + 1] = vocabulary.separate
        length = of_first + 2
        if seconds is not None:
            end = length + of_second + 1
            ids[row, length:end] = [*second[:of_second], vocabulary.separate]
            types[row, length:end] = 1
            length = end
        mask[row, :length] = 1
    return {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}
