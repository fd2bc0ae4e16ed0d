"""Prepares parallel texts for translation: cleaned, tokenized, in shards, with an index.

    tfbigbatch prepare-wmt --source_files=train.en.gz --target_files=train.de.gz \\
      --valid_source_files=val.en.gz --valid_target_files=val.de.gz \\
      --test_source_files=test.en.gz --test_target_files=test.de.gz --output_dir=data/en_de

A text has one sentence per line, with its translation in the same line of the other file, in any pair of languages;
files may be compressed as .gz. Several files, separated by commas, are concatenated; each pair of test files is a test
set of its own. Pairs that cannot be used for training are left out and counted; all held-out sentences are kept. The
tokens are sentencepiece's, with one vocabulary for both languages. The same command resumes, and skips work that is
already done.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from tfbigbatch.cli import prepare as commands
from tfbigbatch.data.records.preparation import account
from tfbigbatch.data.translation import prepare
from tfbigbatch.data.translation.prepare import REFUSALS, Options

_SETS = {
    "": "the training set",
    "valid_": "the validation set",
    "test_": "the test sets 'test', 'test_2' and so on",
}


def define_flags() -> None:
    for prefix, words in _SETS.items():
        flags.DEFINE_list(f"{prefix}source_files", [], f"Source texts of {words}.")
        flags.DEFINE_list(f"{prefix}target_files", [], f"Translations of --{prefix}source_files.")
    commands.define_flags(Options)


def main(arguments: Sequence[str]) -> None:
    flag = flags.FLAGS
    splits = prepare.splits_of(
        *((flag[f"{prefix}source_files"].value, flag[f"{prefix}target_files"].value) for prefix in _SETS)
    )
    content, already = prepare.Texts(splits, commands.given(Options)).prepare(flag.output_dir, commands.say)
    print(f"{flag.output_dir} {'holds this already' if already else 'is prepared'}:")
    for split in splits:
        counts = content["counts"][split]
        print(account(split, "pairs", counts["lines"], {words: counts[name] for name, words in REFUSALS.items()}))
        print(
            f"  {counts['source_pieces']:,} and {counts['target_pieces']:,} pieces; {counts['cut']:,} sentences were "
            "cut to --max_eval_length"
        )
    if set(splits) == {"train"}:
        print("held out: none; training needs --valid_source_files or --test_source_files, and their targets")
    print(f"vocabulary: {content['vocabulary_size']:,} pieces")
