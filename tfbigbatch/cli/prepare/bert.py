"""Prepares plain text for BERT pretraining: tokenized, in sequences, in shards, with an index.

    tfbigbatch prepare-bert --source=TEXT --vocab_file=vocab.txt --output_dir=data/bert_128

TEXT is a file with one sentence per line and blank lines between documents; files of WikiText; output of WikiExtractor;
or a folder of such files, which may be compressed as .gz or .bz2. A folder of TFRecords written by
create_pretraining_data or by NVIDIA's scripts is only indexed. The two phases of BERT need a folder each:
--max_seq_length=128 --max_predictions_per_seq=20, then 512 and 80.

By default the records have no masks: the training pipeline draws new masks in each epoch. --masking=static_token and
static_whole_word write fixed masks, in the layout of google-research/bert's create_pretraining_data.py; --dupe_factor
then passes over the text several times. The same command resumes, and skips work that is already done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from absl import flags

from tfbigbatch.cli.prepare import shards_of
from tfbigbatch.data import left_out
from tfbigbatch.data.bert.prepare import corpus, existing, prepare
from tfbigbatch.data.bert.prepare.settings import MASKINGS, Settings
from tfbigbatch.utils.processes import cores


def define_flags() -> None:
    flags.DEFINE_string("source", None, f"Source of the text. {corpus.UNDERSTOOD}", required=True)
    flags.DEFINE_string("output_dir", None, "Folder for the prepared dataset; the trainer's --data_dir.", required=True)
    flags.DEFINE_string("vocab_file", None, "WordPiece vocabulary: one token per line, [PAD] first.")
    flags.DEFINE_integer(
        "train_vocab_size",
        None,
        "In place of --vocab_file: learn a vocabulary of this size from the text (needs the package `tokenizers`).",
    )
    flags.DEFINE_integer("max_seq_length", 128, "Tokens in a sequence, including [CLS] and [SEP].")
    flags.DEFINE_integer("max_predictions_per_seq", 20, "Largest number of masked tokens in a sequence.")
    flags.DEFINE_enum(
        "masking",
        "dynamic",
        MASKINGS,
        "dynamic: the training pipeline draws masks in each epoch; static: masks are written to the records.",
    )
    flags.DEFINE_bool(
        "next_sentence", True, "Write pairs of segments with a next-sentence label; otherwise spans of one document."
    )
    flags.DEFINE_bool("packed", False, "Put several spans in a sequence where they fit; needs --nonext_sentence.")
    flags.DEFINE_bool("lower_case", True, "Lower-case the text and strip accents, as for uncased models.")
    flags.DEFINE_bool("cut_sentences", True, "Split paragraphs into sentences, in layouts that have paragraphs.")
    flags.DEFINE_integer("dupe_factor", 1, "Number of passes over the text, each with other random choices.")
    flags.DEFINE_float("short_seq_prob", 0.1, "Probability of a random shorter target length for a sequence.")
    flags.DEFINE_float(
        "validation_share",
        None,
        "Fraction of the documents to hold out for validation, which training needs; 0 for none. "
        "Default: a hundredth of them, ten documents at least and a tenth at most.",
    )
    flags.DEFINE_list("shards", [], "Number of shards, as train:256,validation:8. Default: by --shard_megabytes.")
    flags.DEFINE_float(
        "shard_megabytes", 64, "Approximate amount of text in a shard; a small corpus has up to eight shards."
    )
    flags.DEFINE_integer("seed", 0, "Seed of all random choices.")
    flags.DEFINE_integer("processes", None, "Number of processes. Default: one per core.", lower_bound=1)
    flags.DEFINE_bool(
        "overwrite", False, "Replace a dataset that was prepared in --output_dir from other text or options."
    )


def main(arguments: Sequence[str]) -> None:
    flag = flags.FLAGS
    print(f"looking through {flag.source}", flush=True)
    processes = flag.processes or cores()
    if existing.find(flag.source):
        content, already = existing.index(
            flag.source, flag.output_dir, flag.vocab_file, processes=processes, overwrite=flag.overwrite
        )
    else:
        content, already = _prepared(flag, processes)
    print(f"{flag.output_dir} {'holds this already' if already else 'is prepared'}:")
    for split, counts in content["counts"].items():
        print(f"  {split:10s}  {counts['sequences']:,} sequences")
        if "tokens" in counts:
            print(
                f"  {'':10s}  {counts['documents']:,} documents, {counts['sentences']:,} sentences, "
                f"{counts['tokens']:,} tokens, {counts['padding_share']:.1%} padding"
            )
        if counts.get("not_utf8"):
            print(
                f"  {'':10s}  {counts['not_utf8']:,} documents have bytes that are not UTF-8, or halves of characters; "
                "those were dropped"
            )
    if "validation" not in content["counts"]:
        print(f"  {'validation':10s}  none: training needs a validation split (--validation_share)")
    print(f"  vocabulary  {content['vocabulary_size']:,} tokens")
    print(*left_out.table(_accounts(content)), sep="\n")


def _accounts(content: dict[str, Any]) -> list[left_out.Account]:
    """What became of the files and of their documents; TFRecords have no documents."""
    accounts = []
    if "source_files" in content:
        files = content["source_files"]
        accounts.append(
            left_out.Account("source", "files", files["read"] + sum(files["unused"].values()), files["unused"])
        )
    for split, counts in content["counts"].items():
        if "documents" in counts:
            reasons = {"without text": counts["empty"], "too short for a sequence": counts["without_sequence"]}
            accounts.append(left_out.Account(split, "documents", counts["documents"], reasons))
        else:
            accounts.append(left_out.Account(split, "sequences", counts["sequences"]))
    return accounts


def _prepared(flag: flags.FlagValues, processes: int) -> tuple[dict[str, Any], bool]:
    given = {name: flag[name].value for name in ("vocab_file", "train_vocab_size", "validation_share")}
    options = prepare.Options(
        settings=Settings(**{field.name: flag[field.name].value for field in dataclasses.fields(Settings)}),
        shards=shards_of(flag.shards),
        shard_megabytes=flag.shard_megabytes,
        processes=processes,
        overwrite=flag.overwrite,
        **given,
    )
    return prepare.prepare(flag.source, flag.output_dir, options, say=lambda line: print(line, flush=True))
