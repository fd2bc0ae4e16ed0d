"""Prepares plain text for BERT pretraining: tokenized, in sequences, in shards, with an index.

    tfbigbatch prepare-bert --source=TEXT --vocab_file=vocab.txt --output_dir=data/bert_128

TEXT is a file with one sentence per line and blank lines between documents; files of WikiText; output of WikiExtractor
--json; or a folder of such files, which may be compressed as .gz or .bz2. A folder of TFRecords written by
create_pretraining_data or by NVIDIA's scripts is only indexed. The two phases of BERT need a folder each:
--max_seq_length=128 --max_predictions_per_seq=20, then 512 and 80.

The records have no masks: the training pipeline draws new ones in each epoch. The same command resumes, and skips work
that is already done.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from tfbigbatch.cli import prepare as commands
from tfbigbatch.data.bert.prepare import corpus, prepare
from tfbigbatch.data.bert.prepare.prepare import Options
from tfbigbatch.data.records.preparation import account


def define_flags() -> None:
    flags.DEFINE_string("source", None, f"Source of the text. {corpus.UNDERSTOOD}", required=True)
    commands.define_flags(Options)


def main(arguments: Sequence[str]) -> None:
    source, output_dir = flags.FLAGS.source, flags.FLAGS.output_dir
    commands.say(f"looking through {source}")
    content, already = prepare.prepare(source, output_dir, commands.given(Options), commands.say)
    print(f"{output_dir} {'holds this already' if already else 'is prepared'}:")
    if "source_files" in content:
        files = content["source_files"]
        print(account("source", "files", files["read"] + sum(files["unused"].values()), files["unused"]))
    for split, counts in content["counts"].items():
        if "documents" in counts:
            reasons = {"without text": counts["empty"], "too short for a sequence": counts["without_sequence"]}
            print(account(split, "documents", counts["documents"], reasons))
            print(
                f"  {counts['sentences']:,} sentences, {counts['tokens']:,} tokens, {counts['padding']:.1%} padding; "
                f"bytes that are not UTF-8 were dropped in {counts['not_utf8']:,} documents"
            )
        print(f"  {counts['sequences']:,} sequences")
    if "validation" not in content["counts"]:
        print("validation: none, and training needs some (--validation_fraction)")
    print(f"vocabulary: {content['vocabulary_size']:,} tokens")
