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

import dataclasses
from collections.abc import Sequence

from absl import flags

from tfbigbatch.data import left_out
from tfbigbatch.data.translation.prepare import prepare
from tfbigbatch.data.translation.prepare.settings import REFUSALS, Settings
from tfbigbatch.utils.processes import cores

_PREFIXES = ("", "valid_", "test_")


def define_flags() -> None:
    flags.DEFINE_list("source_files", [], "Source texts of the training set.")
    flags.DEFINE_list("target_files", [], "Translations of --source_files.")
    flags.DEFINE_list("valid_source_files", [], "Source texts of the validation set.")
    flags.DEFINE_list("valid_target_files", [], "Their translations.")
    flags.DEFINE_list("test_source_files", [], "Source texts of the test sets 'test', 'test_2' and so on.")
    flags.DEFINE_list("test_target_files", [], "Their translations.")
    flags.DEFINE_string("output_dir", None, "Folder for the prepared dataset; the trainer's --data_dir.", required=True)
    flags.DEFINE_string("vocabulary", None, "Sentencepiece model, such as the vocabulary.model of a prepared folder.")
    flags.DEFINE_integer(
        "vocabulary_size",
        None,
        f"In place of --vocabulary: learn one of this size. Default: {prepare.VOCABULARY_SIZE:,}.",
    )
    flags.DEFINE_integer(
        "vocabulary_sentences",
        2_000_000,
        "Largest number of pairs to learn the vocabulary from; they are held in memory.",
    )
    flags.DEFINE_integer("max_length", 50, "Largest number of tokens in a training sentence.")
    flags.DEFINE_float(
        "max_ratio", 9.0, "Largest ratio of the longer to the shorter sentence of a training pair, in tokens."
    )
    flags.DEFINE_integer(
        "max_eval_length", 150, "Largest number of tokens in a held-out sentence; longer ones are truncated."
    )
    flags.DEFINE_float(
        "shard_megabytes", 64, "Approximate amount of text in a shard; a small text has up to eight shards."
    )
    flags.DEFINE_integer("processes", None, "Number of processes. Default: one per core.", lower_bound=1)
    flags.DEFINE_bool(
        "overwrite", False, "Replace a dataset that was prepared in --output_dir from other texts or options."
    )


def main(arguments: Sequence[str]) -> None:
    flag = flags.FLAGS
    files = {prefix: (flag[f"{prefix}source_files"].value, flag[f"{prefix}target_files"].value) for prefix in _PREFIXES}
    options = prepare.Options(
        settings=Settings(**{field.name: flag[field.name].value for field in dataclasses.fields(Settings)}),
        processes=flag.processes or cores(),
        **{
            name: flag[name].value
            for name in ("vocabulary", "vocabulary_size", "vocabulary_sentences", "shard_megabytes", "overwrite")
        },
    )
    splits = prepare.splits_of(*files.values())
    content, already = prepare.prepare(splits, flag.output_dir, options, say=lambda line: print(line, flush=True))
    print(f"{flag.output_dir} {'holds this already' if already else 'is prepared'}:")
    for split in splits:
        counts = content["counts"][split]
        print(
            f"  {split:10s}  {counts['pairs']:,} pairs of {counts['lines']:,} lines, "
            f"{counts['source_pieces']:,} and {counts['target_pieces']:,} pieces"
        )
        if counts["cut"]:
            print(f"  {'':10s}  {counts['cut']:,} sentences of more pieces than --max_eval_length were cut")
        if counts["not_reversible"]:
            print(
                f"  {'':10s}  {counts['not_reversible']:,} sentences are not given back as they are by the vocabulary"
            )
    if set(splits) == {"train"}:
        print("  held out    none: training needs --valid_source_files or --test_source_files, and their targets")
    print(f"  vocabulary  {content['vocabulary_size']:,} pieces")
    accounts = [
        left_out.Account(
            split,
            "pairs",
            content["counts"][split]["lines"],
            {words: content["counts"][split][name] for name, words in REFUSALS.items()},
        )
        for split in splits
    ]
    print(*left_out.table(accounts), sep="\n")
