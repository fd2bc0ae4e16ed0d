"""What the sequences depend on, beside their text."""

import dataclasses

from tfbigbatch.data.bert import manifest
from tfbigbatch.errors import InputError

MASKINGS = (manifest.DYNAMIC, "static_token", "static_whole_word")
# [CLS], a token of each segment, and two [SEP].
_SHORTEST = 5


@dataclasses.dataclass(frozen=True)
class Settings:
    """How text becomes sequences.

    Attributes:
      max_seq_length: tokens of a sequence, special ones included.
      max_predictions_per_seq: masked tokens of a sequence at most.
      masking: one of MASKINGS.
      next_sentence: whether sequences are pairs of segments with a label; else runs of a document's text.
      packed: whether several runs share a sequence; of dynamic masking without next-sentence prediction alone.
      lower_case: whether text is lower-cased and loses its accents.
      cut_sentences: whether paragraphs are cut into sentences, where the layout has paragraphs.
      dupe_factor: how many times the text is gone through, with other random choices each time.
      short_seq_prob: the probability of aiming at a random shorter length.
      seed: of all random choices.

    Raises:
      ValueError: a value is out of its range.
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

    def __post_init__(self):
        for name, fine, expected in (
            ("max_seq_length", self.max_seq_length >= _SHORTEST, f"{_SHORTEST} or more"),
            (
                "max_predictions_per_seq",
                1 <= self.max_predictions_per_seq <= self.max_seq_length,
                f"1 to --max_seq_length={self.max_seq_length}",
            ),
            ("masking", self.masking in MASKINGS, f"one of {', '.join(MASKINGS)}"),
            ("dupe_factor", self.dupe_factor >= 1, "1 or more"),
            ("short_seq_prob", 0 <= self.short_seq_prob <= 1, "0 to 1"),
        ):
            if not fine:
                raise InputError(f"--{name}={getattr(self, name)}: expected {expected}.")
        if self.packed and (self.next_sentence or self.masking != manifest.DYNAMIC):
            raise InputError(
                "--packed is for runs of text that the pipeline masks: give --nonext_sentence --masking=dynamic."
            )
