#!/usr/bin/env python3
"""Times libraries against the package's own code: the table of results/measurements/speed.md.

    python benchmarks/libraries.py [--vocab_file=vocab.txt --text=wikitext-2/train.txt]

The own code is read from the repository's history, so this needs a clone that has it. Each line is the best of three.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time

import google_crc32c
import numpy as np

from tfbigbatch.data import tokenizer
from tfbigbatch.data.records import tfrecord

# The last commit that has the own code.
BEFORE = "112aafda41ff"


def own(path, name):
    """The module `name` as it was at BEFORE."""
    text = subprocess.run(["git", "show", f"{BEFORE}:{path}"], capture_output=True, check=True, text=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "module.py")
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
        spec = importlib.util.spec_from_file_location(name, file)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def best(function):
    """Seconds of the fastest of three calls."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def row(what, library, ours):
    """Prints a line of the table: milliseconds of the library's and of the own code's call."""
    print(f"| {what} | {best(library) * 1000:,.0f} ms | {best(ours) * 1000:,.0f} ms |", flush=True)


def checksums(before):
    """google-crc32c."""
    for count, size, words in ((64_000, 200, "64,000 records of 200 B"), (2_000, 100_000, "2,000 records of 100 kB")):
        records = [os.urandom(size) for _ in range(count)]
        frames = [tfrecord.framed(record) for record in records]
        assert frames == before.framed_together(records)
        row(
            f"frame {words}",
            lambda records=records: list(map(tfrecord.framed, records)),
            lambda records=records: before.framed_together(records),
        )
        row(
            f"unframe {words}",
            lambda frames=frames: list(map(tfrecord.unframed, frames)),
            lambda frames=frames: before.unframed_together(frames),
        )


def bert_examples(before):
    """protobuf, on records of eight lists of 128 ints."""
    rows = np.random.RandomState(0).randint(0, 30522, (8, 5_000, 128))
    names = [f"list_{number}" for number in range(8)]

    def ours():
        columns = [before.varints_of_rows(values) for values in rows]
        return [before.example(dict(zip(names, values))) for values in zip(*columns)]

    def library():
        return [tfrecord.example(dict(zip(names, values))) for values in zip(*rows)]

    records = library()
    assert records == ours()
    row("serialize 5,000 examples of BERT (8 lists of 128)", library, ours)
    row(
        "count the values of 5,000 examples of BERT",
        lambda: [dict(tfrecord.counted(record)) for record in records],
        lambda: [dict(before.counted(memoryview(record))) for record in records],
    )


def image_examples(before):
    """protobuf, on the features of ImageNet's records."""
    text = {"image/format": b"JPEG", "image/class/synset": b"n01440764", "image/class/text": b"tench"}
    numbers = {"image/height": 375, "image/width": 500, "image/channels": 3, "image/class/label": 7}
    all_features = [{"image/encoded": os.urandom(100_000), **text, **numbers} for _ in range(2_000)]

    def all_of(module):
        return [module.example(features) for features in all_features]

    records = all_of(tfrecord)
    assert records == all_of(before)
    row("serialize 2,000 examples of ImageNet (100 kB)", lambda: all_of(tfrecord), lambda: all_of(before))
    kind = tfrecord._example_class()
    row(
        "read the labels of 2,000 examples of ImageNet",
        lambda: [kind.FromString(record).features.feature["image/class/label"] for record in records],
        lambda: [dict(tfrecord.parsed(memoryview(record)))["image/class/label"] for record in records],
    )


# One function a library; further ones go here and into main.


def tokenizing(vocab_file, text_file):
    """`tokenizers`, by as many threads as it takes, on the lines of a text."""
    import tokenizers

    vocabulary = tokenizer.Vocabulary.load(vocab_file)
    ids = {token: number for number, token in enumerate(vocabulary.tokens)}
    model = tokenizers.models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=tokenizer.LONGEST_WORD)
    library, ours = tokenizers.Tokenizer(model), tokenizer.Tokenizer(vocabulary)
    library.normalizer = tokenizers.normalizers.BertNormalizer(strip_accents=True, lowercase=True)
    library.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    with open(text_file, encoding="utf-8") as file:
        lines = file.readlines()

    def theirs():
        return [encoding.ids for encoding in library.encode_batch_fast(lines, add_special_tokens=False)]

    assert theirs() == list(map(ours.ids, lines))
    row("tokenize a text, uncased", theirs, lambda: list(map(tokenizer.Tokenizer(vocabulary).ids, lines)))
    row(
        "tokenize it with offsets",
        lambda: [encoding.offsets for encoding in library.encode_batch(lines, add_special_tokens=False)],
        lambda: list(map(tokenizer.Tokenizer(vocabulary).encode, lines)),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab_file", help="BERT's vocab.txt; with --text, tokenizers are timed too")
    parser.add_argument("--text", help="a plain text")
    options = parser.parse_args()
    own("tfbigbatch/data/records/crc32c.py", "tfbigbatch.data.records.crc32c")
    before = own("tfbigbatch/data/records/tfrecord.py", "tfrecord_before")
    print(f"google-crc32c: {google_crc32c.implementation}\n\n| what | library | own code |\n|---|---|---|")
    for measure in (checksums, bert_examples, image_examples):
        measure(before)
    if options.vocab_file and options.text:
        tokenizing(options.vocab_file, options.text)


if __name__ == "__main__":
    main()
