"""Prepares parallel texts for translation: cleaned, cut into pieces, in shards, with an index.

    python tools/prepare_wmt.py --source_files=train.en.gz --target_files=train.de.gz \
      --valid_source_files=val.en.gz --valid_target_files=val.de.gz \
      --test_source_files=test.en.gz --test_target_files=test.de.gz --output_dir=data/en_de

A text has a sentence a line, and its translation in the same line of the other file; any pair of languages will do,
and each file may be packed as .gz. Several files, with commas between them, are joined; of the test files each pair is
a set of its own. Pairs that cannot be trained on are left out and counted; held-out sentences all stay. The pieces are
sentencepiece's, of one vocabulary for both languages. The same command goes on where it was stopped, and finds its
work done.
"""

import dataclasses

from absl import flags

from tfbigbatch.data.translation.prepare import prepare
from tfbigbatch.data.translation.prepare.settings import REFUSALS, Settings
from tfbigbatch.utils import command
from tfbigbatch.utils.processes import cores

flags.DEFINE_list("source_files", [], "The training text to translate from.")
flags.DEFINE_list("target_files", [], "Its translation.")
flags.DEFINE_list("valid_source_files", [], "The same for validation.")
flags.DEFINE_list("valid_target_files", [], "The same for validation.")
flags.DEFINE_list("test_source_files", [], "The same for the tests: 'test', 'test_2' and so on.")
flags.DEFINE_list("test_target_files", [], "The same for the tests.")
flags.DEFINE_string("output_dir", None, "Where the prepared set goes; the trainer's --data_dir.", required=True)
flags.DEFINE_string("vocabulary", None, "A sentencepiece model, such as the vocabulary.model of a prepared folder.")
flags.DEFINE_integer(
    "vocabulary_size", None, f"Or learn one of so many pieces; left out, of {prepare.VOCABULARY_SIZE:,}."
)
flags.DEFINE_integer(
    "vocabulary_sentences", 2_000_000, "The pairs that it is learnt from, at most; they are held in memory."
)
flags.DEFINE_integer("max_length", 50, "Pieces of a sentence at most, in training.")
flags.DEFINE_float("max_ratio", 9.0, "Of the longer to the shorter sentence, in pieces, at most, in training.")
flags.DEFINE_integer("max_eval_length", 150, "Pieces of a held-out sentence at most; a longer one loses its end.")
flags.DEFINE_float("shard_megabytes", 64, "About how much text goes into a shard; small texts have up to eight.")
flags.DEFINE_integer("processes", None, "Processes at once; left out, one for each core.", lower_bound=1)
flags.DEFINE_bool("overwrite", False, "Replace what was prepared in --output_dir of other texts or options.")


def _main(unused):
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
        for name, words in REFUSALS.items():
            if counts[name]:
                print(f"  {'':10s}  {counts[name]:,} pairs {words} were left out")
        if counts["cut"]:
            print(f"  {'':10s}  {counts['cut']:,} sentences of more pieces than --max_eval_length were cut")
        if counts["not_reversible"]:
            print(
                f"  {'':10s}  {counts['not_reversible']:,} sentences are not given back as they are by the vocabulary"
            )
    print(f"  vocabulary  {content['vocabulary_size']:,} pieces")


_PREFIXES = ("", "valid_", "test_")

if __name__ == "__main__":
    command.execute(_main)
