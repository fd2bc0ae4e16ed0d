"""Prepares the Penn Treebank, or any corpus of three plain texts, for language modelling.

    tfbigbatch prepare-ptb --source=FOLDER --output_dir=data/ptb_prepared

FOLDER holds the Mikolov files ptb.train.txt, ptb.valid.txt and ptb.test.txt (from simple-examples.tgz), or any
*train*.txt, *valid*.txt and *test*.txt, such as those of WikiText-2. The command skips work that is already done.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import flags

from tfbigbatch.data.language_model import corpus


def define_flags() -> None:
    flags.DEFINE_string("source", None, "Folder of the three texts.", required=True)
    flags.DEFINE_string("output_dir", None, "Folder for the prepared corpus; the trainer's --data_dir.", required=True)


def main(arguments: Sequence[str]) -> None:
    options = flags.FLAGS
    manifest, already = corpus.prepare(corpus.find_texts(options.source), options.output_dir)
    print(f"{options.output_dir} {'holds this corpus already' if already else 'is prepared'}:")
    for split in corpus.SPLITS:
        print(f"  {split:5s}  {manifest['tokens'][split]:>11,} tokens, {manifest['unknown'][split]:,} made <unk>")
    print(f"  words  {manifest['vocabulary_size']:>11,}")
