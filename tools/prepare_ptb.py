"""Prepares the Penn Treebank, or any corpus of three plain texts, for language modelling.

    python tools/prepare_ptb.py --source=FOLDER --output_dir=data/ptb_prepared

FOLDER holds the Mikolov files ptb.train.txt, ptb.valid.txt and ptb.test.txt (in the archive
simple-examples.tgz), or any *train*.txt, *valid*.txt and *test*.txt; WikiText-2's do as well. Or name
the files: --train=... --valid=... --test=... The same command again finds its work done.
"""

from absl import flags

from tfbigbatch.data.language_model import corpus
from tfbigbatch.errors import InputError
from tfbigbatch.utils import command

flags.DEFINE_string("source", None, "The folder of the three texts.")
for _split in corpus.SPLITS:
    flags.DEFINE_string(_split, None, f"The {_split} text, in place of --source.")
flags.DEFINE_string("output_dir", None, "Where the prepared corpus goes; the trainer's --data_dir.", required=True)
flags.DEFINE_integer("vocabulary_size", None, "How many words stay, <eos> and <unk> included; all where left out.")
flags.DEFINE_bool("overwrite", False, "Replace a corpus of other texts in --output_dir.")


def _main(unused):
    options = flags.FLAGS
    named = {split: options[split].value for split in corpus.SPLITS if options[split].value}
    if bool(options.source) == bool(named) or (named and len(named) < len(corpus.SPLITS)):
        raise InputError("Give either --source=FOLDER, or all of --train, --valid and --test.")
    manifest, already = corpus.prepare(
        named or corpus.find_texts(options.source),
        options.output_dir,
        vocabulary_size=options.vocabulary_size,
        overwrite=options.overwrite,
    )
    print(f"{options.output_dir} {'holds this corpus already' if already else 'is prepared'}:")
    for split in corpus.SPLITS:
        print(f"  {split:5s}  {manifest['tokens'][split]:>11,} tokens, {manifest['unknown'][split]:,} made <unk>")
    print(f"  words  {manifest['vocabulary_size']:>11,}")


if __name__ == "__main__":
    command.execute(_main)
