"""How text becomes pretraining sequences."""

from __future__ import annotations

import dataclasses

from tfbigbatch.data.bert import manifest
from tfbigbatch.data.records.preparation import check_options
from tfbigbatch.errors import InputError

MASKINGS = (manifest.DYNAMIC, "static_token", "static_whole_word")
# [CLS], a token of each segment, and two [SEP].
_SHORTEST = 5


@dataclasses.dataclass(frozen=True)
class Settings:
    """How text becomes sequences.

    Attributes:
      max_seq_length: tokens in a sequence, with the special ones.
      max_predictions_per_seq: maximum masked tokens in a sequence.
      masking: one of MASKINGS.
      next_sentence: whether sequences are pairs of segments with a label, or runs of a document's text.
      packed: whether several runs share a sequence; requires dynamic masking without next-sentence prediction.
      lower_case: whether to lower-case text and strip accents.
      cut_sentences: whether to split paragraphs into sentences, where the layout has paragraphs.
      dupe_factor: passes over the text, each with other random choices.
      short_seq_prob: probability of a random shorter target length.
      seed: of all random choices.

    Raises:
      ValueError: a value is out of range.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masking: str = manifest.DYNAMIC
    next_sentence: bool = True
    packed: bool = False
    lower_case: bool = True
    cut_sentences: bool = True
    dupe_factor: int = 1
    short_seq_prob: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        predictions = 1 <= self.max_predictions_per_seq <= self.max_seq_length
        check_options(
            self,
            {
                "max_seq_length": (self.max_seq_length >= _SHORTEST, f"{_SHORTEST} or more"),
                "max_predictions_per_seq": (predictions, f"1 to --max_seq_length={self.max_seq_length}"),
                "masking": (self.masking in MASKINGS, f"one of {', '.join(MASKINGS)}"),
                "dupe_factor": (self.dupe_factor >= 1, "1 or more"),
                "short_seq_prob": (0 <= self.short_seq_prob <= 1, "0 to 1"),
            },
        )
        if self.packed and (self.next_sentence or self.masking != manifest.DYNAMIC):
            raise InputError(
                "--packed is for runs of text that the pipeline masks: give --nonext_sentence --masking=dynamic."
            )
