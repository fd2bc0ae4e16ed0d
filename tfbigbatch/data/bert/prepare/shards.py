"""What goes into which TFRecord file, and writing one of them: whole or not at all."""

import dataclasses
import functools
import os
import random

import numpy as np

from tfbigbatch.data import tokenizer as wordpiece
from tfbigbatch.data.bert import manifest
from tfbigbatch.data.bert.prepare import corpus, instances, packing, records
from tfbigbatch.data.bert.prepare.settings import Settings
from tfbigbatch.data.records import counter_random
from tfbigbatch.data.records import shards as shard_files
from tfbigbatch.data.records.prepared_folder import PROGRESS
from tfbigbatch.errors import InputError

# The text that is held in memory at once, as ids; its sequences are shuffled together.
_BLOCK_BYTES = 4 << 20
# Small corpora are prepared in parallel too: up to so many shards, of so many documents or more.
_FEWEST, _DOCUMENTS_EACH = 8, 100


@dataclasses.dataclass(frozen=True, eq=False)
class Shard:
    """A TFRecord file to write.

    Attributes:
      name: of the file, train-00000-of-00128.
      split: 'train' or 'validation'.
      number: among the shards of its split.
      folder: where it goes.
      documents: corpus.Documents.
      vocabulary: (path of vocab.txt, its digest).
      settings: Settings.
    """

    name: str
    split: str
    number: int
    folder: str
    documents: corpus.Documents
    vocabulary: tuple
    settings: Settings

    @property
    def path(self):
        """Where the file lies once it is whole."""
        return os.path.join(self.folder, self.name)

    @property
    def record(self):
        """Where it is written down what the file holds, once it is whole."""
        return os.path.join(self.folder, PROGRESS, f"{self.name}.json")

    @property
    def offsets(self):
        """Where it is written down at which byte each record begins, once it is whole."""
        return os.path.join(self.folder, PROGRESS, f"{self.name}.offsets.npy")


def held_out(count, share, seed):
    """Which of `count` documents are for validation: bool [count]; at least one where there are two and a share."""
    held = np.zeros(count, bool)
    if share and count > 1:
        size = min(max(1, round(share * count)), count - 1)
        held[np.argsort(counter_random.keys(seed, -1, np.arange(count)), kind="stable")[:size]] = True
    return held


def plan(documents, folder, vocabulary, settings, *, validation_share, shards, megabytes):
    """The Shards of a corpus: each has documents that lie beside each other, of about the same size together.

    Args:
      documents: corpus.Documents.
      folder: where they go.
      vocabulary: (path of vocab.txt, its digest).
      settings: Settings.
      validation_share: of the documents.
      shards: dictionary from splits to their numbers of shards; for another split, by `megabytes`.
      megabytes: about how much text goes into a shard, in 10^6 bytes, counted once for each pass.

    Raises:
      ValueError: a split cannot have so many shards.
    """
    held, planned = held_out(len(documents), validation_share, settings.seed), []
    for split, which in (("train", ~held), ("validation", held)):
        part = documents.only(np.flatnonzero(which))
        if not len(part):
            continue
        ends = np.cumsum(part.length)
        by_size = -(-int(ends[-1]) * settings.dupe_factor // int(megabytes * 1e6))
        count = shards.get(split) or max(1, min(_FEWEST, len(part) // _DOCUMENTS_EACH), min(by_size, len(part)))
        if count > len(part):
            raise InputError(f"--shards={split}:{count}: expected 1 to {len(part):,}, its documents.")
        for number, (first, last) in enumerate(shard_files.portions(ends, count)):
            name = f"{split}-{number:05d}-of-{count:05d}"
            planned.append(Shard(name, split, number, folder, part.only(slice(first, last)), vocabulary, settings))
    return planned


def write(shard, tick):
    """Writes a shard, and then its record beside it: what it holds, as `shard_files.done` returns it.

    Args:
      shard: Shard.
      tick: called after each document; what it raises ends the writing, and nothing is left under the shard's name.

    Raises:
      ValueError: a file cannot be read, or the folder cannot be written.
    """
    counts = dict.fromkeys(COUNTS, 0)
    return shard_files.write(shard, _records(shard, counts, tick), counts)


# What is counted: documents, those without a token, those with bytes that are not UTF-8, sentences and tokens of the
# text; pairs or runs, the sequences that hold them, their tokens with the special ones, and pairs whose second segment
# is of another document.
COUNTS = (
    "documents",
    "empty",
    "not_utf8",
    "sentences",
    "tokens",
    "texts",
    "sequences",
    "sequence_tokens",
    "random_next",
)


def _records(shard, counts, tick):
    """Lists of serialized examples, one for each block of documents; counts on the way."""
    settings, documents = shard.settings, shard.documents
    tokenizer = _tokenizer(*shard.vocabulary, settings.lower_case)
    ends = np.cumsum(documents.length)
    blocks = min(len(documents), -(-int(ends[-1]) // _BLOCK_BYTES))
    before, stream = [], 2 * shard.number + (shard.split == "validation")
    for block, (first, last) in enumerate(shard_files.portions(ends, blocks)):
        part = documents.only(slice(first, last))
        texts = _tokenised(part, tokenizer, settings, counts, tick)
        found = _sequences(texts, part.number.tolist(), before, tokenizer.vocabulary, settings, counts)
        found = packing.packed(found, settings.max_seq_length) if settings.packed else found
        counts["sequences"] += len(found)
        random.Random(f"{settings.seed} {shard.name} {block}").shuffle(found)
        if settings.packed:
            yield records.packed(found, bytes_of_id(tokenizer.vocabulary))
        elif settings.masking == manifest.DYNAMIC:
            yield records.dynamic(found, settings, bytes_of_id(tokenizer.vocabulary))
        else:
            first_of_block = counts["sequences"] - len(found)
            yield records.static(found, settings, tokenizer.vocabulary, stream, first_of_block)
        before = [text for text in texts if text]


def bytes_of_id(vocabulary):
    """The bytes of a token in a dynamic record."""
    return 2 if len(vocabulary) <= 1 << 16 else 4


@functools.lru_cache(1)
def _tokenizer(path, sha256, lower_case):
    # A process writes many shards, and its tokenizer has learnt the words.
    del sha256  # another vocabulary at the same path is another tokenizer
    return wordpiece.Tokenizer(wordpiece.Vocabulary.load(path), lower_case)


def _tokenised(documents, tokenizer, settings, counts, tick):
    """A list of documents: each a list of its sentences, as ids."""
    found = []
    for text, layout, whole in documents.texts():
        sentences = map(tokenizer.ids, layout.sentences(text, settings.cut_sentences))
        sentences = [sentence for sentence in sentences if sentence]
        counts["documents"] += 1
        counts["empty"] += not sentences
        counts["not_utf8"] += not whole
        counts["sentences"] += len(sentences)
        counts["tokens"] += sum(map(len, sentences))
        found.append(sentences)
        tick()
    return found


def _sequences(texts, numbers, before, vocabulary, settings, counts):
    """(ids from [CLS] to the last [SEP], length up to and with the first [SEP], label) of each sequence.

    Args:
      texts: list of documents, of `_tokenised`.
      numbers: list of their numbers in the corpus.
      before: documents for random segments where there is but one.
    """
    classify, separate, found = [vocabulary.classify], [vocabulary.separate], []
    full = [place for place, text in enumerate(texts) if text]

    for turn in range(settings.dupe_factor):
        for rank, place in enumerate(full):
            # Whatever the shards are, a document's choices are its own.
            choices = random.Random(f"{settings.seed} {numbers[place]} {turn}")
            common = {"short_share": settings.short_seq_prob, "random": choices}
            if settings.next_sentence:
                another = _another(texts, full, rank, before)
                length = settings.max_seq_length - 3
                for a, b, label in instances.pairs(texts[place], another, length=length, **common):
                    found.append((classify + a + separate + b + separate, len(a) + 2, label))
                    counts["random_next"] += label
            else:
                for text in instances.runs(texts[place], length=settings.max_seq_length - 2, **common):
                    found.append((classify + text + separate, len(text) + 2, 0))
    counts["texts"] += len(found)
    counts["sequence_tokens"] += sum(len(ids) for ids, _, _ in found)
    return found


def _another(texts, full, rank, before):
    """Function that picks a document which is not the one at `rank` of `full`; None where there is none."""
    if len(full) > 1:
        # A step of 1 to all but one further on, around the end: never the document itself.
        return lambda choices: texts[full[(rank + 1 + choices.randrange(len(full) - 1)) % len(full)]]
    return (lambda choices: choices.choice(before)) if before else None
