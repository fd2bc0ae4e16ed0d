"""The options of preparing pretraining data from text."""

from __future__ import annotations

import dataclasses

from tfbigbatch.data.bert import manifest
from tfbigbatch.data.records.preparation import check_options, option
from tfbigbatch.errors import InputError

MASKINGS = (manifest.DYNAMIC, "static_token", "static_whole_word")
# [CLS], a token of each segment, and two [SEP].
_SHORTEST = 5


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the preparation; each is a flag of `tfbigbatch prepare-bert` with the help that stands here.

    Raises:
      ValueError: a value is out of range, or not exactly one of vocab_file and train_vocab_size is given.
    """

    vocab_file: str | None = option(None, "WordPiece vocabulary: one token per line, [PAD] first.")
    train_vocab_size: int | None = option(
        None,
        "In place of --vocab_file: learn a vocabulary of this size from the text (needs the package `tokenizers`).",
    )
    max_seq_length: int = option(128, "Tokens in a sequence, including [CLS] and [SEP].")
    max_predictions_per_seq: int = option(20, "Largest number of masked tokens in a sequence.")
    masking: str = option(
        manifest.DYNAMIC,
        "dynamic: the training pipeline draws masks in each epoch; static_token, static_whole_word: masks are written "
        "to the records.",
    )
    next_sentence: bool = option(
        True, "Write pairs of segments with a next-sentence label; otherwise spans of one document."
    )
    lower_case: bool = option(True, "Lower-case the text and strip accents, as for uncased models.")
    cut_sentences: bool = option(True, "Split paragraphs into sentences, in layouts that have paragraphs.")
    dupe_factor: int = option(1, "Number of passes over the text, each with other random choices.")
    short_seq_prob: float = option(0.1, "Probability of a random shorter target length for a sequence.")
    validation_share: float | None = option(
        None,
        "Fraction of the documents to hold out for validation, which training needs; 0 for none. "
        "Default: a hundredth of them, ten documents at least and a tenth at most.",
    )
    shards: dict[str, int] = dataclasses.field(default_factory=dict)
    seed: int = option(0, "Seed of all random choices.")
    processes: int = 1
    overwrite: bool = False

    def __post_init__(self) -> None:
        if (self.vocab_file is None) == (self.train_vocab_size is None):
            raise InputError("Give either --vocab_file=FILE or --train_vocab_size=NUMBER, and not both.")
        predictions = 1 <= self.max_predictions_per_seq <= self.max_seq_length
        check_options(
            self,
            {
                "train_vocab_size": ((self.train_vocab_size or 100) >= 100, "100 or more"),
                "max_seq_length": (self.max_seq_length >= _SHORTEST, f"{_SHORTEST} or more"),
                "max_predictions_per_seq": (predictions, f"1 to --max_seq_length={self.max_seq_length}"),
                "masking": (self.masking in MASKINGS, f"one of {', '.join(MASKINGS)}"),
                "dupe_factor": (self.dupe_factor >= 1, "1 or more"),
                "short_seq_prob": (0 <= self.short_seq_prob <= 1, "0 to 1"),
                "validation_share": (0 <= (self.validation_share or 0.0) < 1, "0 to less than 1"),
                "processes": (self.processes >= 1, "1 or more"),
            },
        )
