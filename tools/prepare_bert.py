"""Prepares plain text for BERT's pretraining: tokenised, in sequences, in shards, with an index.

    python tools/prepare_bert.py --source=TEXT --vocab_file=vocab.txt --output_dir=data/bert_128

TEXT is a file with a sentence a line and blank lines between documents; WikiText's files; what WikiExtractor
writes; or a folder of such files, each perhaps packed as .gz or .bz2. Of a folder of TFRecords that
create_pretraining_data or NVIDIA's scripts wrote only an index is made. BERT's two phases take one folder each:
--max_seq_length=128 --max_predictions_per_seq=20, then 512 and 80.

By default the records have no masks: the training pipeline masks anew in each epoch. --masking=static_token and
static_whole_word write masks for good, in the layout of google-research/bert's create_pretraining_data.py; then
--dupe_factor goes through the text several times. The same command goes on where it was stopped, and finds its
work done.
"""

import dataclasses

from absl import flags

from tfbigbatch.data.bert.prepare import corpus, existing, prepare
from tfbigbatch.data.bert.prepare.settings import MASKINGS, Settings
from tfbigbatch.utils import command
from tfbigbatch.utils.processes import cores

flags.DEFINE_string("source", None, f"The text. {corpus.UNDERSTOOD}", required=True)
flags.DEFINE_string("output_dir", None, "Where the prepared set goes; the trainer's --data_dir.", required=True)
flags.DEFINE_string("vocab_file", None, "The WordPiece vocabulary: a token a line, [PAD] first.")
flags.DEFINE_integer("train_vocab_size", None, "Or learn one of so many tokens from the text (package `tokenizers`).")
flags.DEFINE_integer("max_seq_length", 128, "Tokens of a sequence, [CLS] and [SEP] included.")
flags.DEFINE_integer("max_predictions_per_seq", 20, "Masked tokens of a sequence at most.")
flags.DEFINE_enum(
    "masking", "dynamic", MASKINGS, "Whether the pipeline masks anew in each epoch, or masks are written."
)
flags.DEFINE_bool("next_sentence", True, "Pairs of segments with a label; else runs of a document's text.")
flags.DEFINE_bool("packed", False, "Several runs in a sequence where they fit; with --nonext_sentence.")
flags.DEFINE_bool("lower_case", True, "Lower-case the text and strip its accents, as for uncased models.")
flags.DEFINE_bool("cut_sentences", True, "Cut paragraphs into sentences, in the layouts that have paragraphs.")
flags.DEFINE_integer("dupe_factor", 1, "How many times to go through the text, with other random choices each time.")
flags.DEFINE_float("short_seq_prob", 0.1, "The probability of aiming at a random shorter length.")
flags.DEFINE_float("validation_share", 0.0, "The share of the documents that is held out.")
flags.DEFINE_list("shards", [], "The number of shards, as train:256,validation:8. Else by --shard_megabytes.")
flags.DEFINE_float("shard_megabytes", 64, "About how much text goes into a shard; small corpora have up to eight.")
flags.DEFINE_integer("seed", 0, "Of all random choices.")
flags.DEFINE_integer("processes", None, "Processes at once; left out, one for each core.", lower_bound=1)
flags.DEFINE_bool("overwrite", False, "Replace what was prepared in --output_dir of other text or options.")


def _main(unused):
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
            print(f"  {'':10s}  {counts['not_utf8']:,} documents have bytes that are not UTF-8, which were left out")
    print(f"  vocabulary  {content['vocabulary_size']:,} tokens")


def _prepared(flag, processes):
    given = {name: flag[name].value for name in ("vocab_file", "train_vocab_size", "validation_share")}
    options = prepare.Options(
        settings=Settings(**{field.name: flag[field.name].value for field in dataclasses.fields(Settings)}),
        shards=command.shards(flag.shards),
        shard_megabytes=flag.shard_megabytes,
        processes=processes,
        overwrite=flag.overwrite,
        **given,
    )
    return prepare.prepare(flag.source, flag.output_dir, options, say=lambda line: print(line, flush=True))


if __name__ == "__main__":
    command.execute(_main)
