"""A text in, a text out: the sentences of a file, a line each, by the network of a run."""

import dataclasses
import functools
import itertools
import os

import numpy as np

from tfbigbatch.data.translation.prepare import texts
from tfbigbatch.data.translation.vocabulary import BEGIN, END, normalised
from tfbigbatch.errors import InputError
from tfbigbatch.utils import processes
from tfbigbatch.utils.files import atomic_write

# Batches whose sentences are sorted by length together: what is in memory at once.
_BLOCK = 50
# The length of the smallest shape; each next one is twice as long.
_SHORTEST = 16
# Lines that are named of those that were cut.
_NAMED = 10


@dataclasses.dataclass(frozen=True)
class Options:
    """How a text is translated; None stands for what the run's own evaluations took.

    Attributes:
      batch_size: sentences at once.
      beam_size: of `beam_search`; 1 for greedy search.
      length_penalty, coverage_penalty: of `beam_search`.
      max_decoded: pieces of a translation at most.
      max_length: pieces of a sentence at most.
      cut: whether a longer one loses its end; otherwise it is an error.
      jit_compile: whether the search is compiled by XLA.

    Raises:
      ValueError: a value is out of its range.
    """

    batch_size: int = 64
    beam_size: int | None = None
    length_penalty: float | None = None
    coverage_penalty: float | None = None
    max_decoded: int | None = None
    max_length: int = 150
    cut: bool = False
    jit_compile: bool = False

    def __post_init__(self):
        for name, least in (
            ("batch_size", 1),
            ("beam_size", 1),
            ("max_decoded", 1),
            ("max_length", 1),
            ("length_penalty", 0),
            ("coverage_penalty", 0),
        ):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise InputError(f"--{name}={value}: expected {least} or more.")


@dataclasses.dataclass
class Counts:
    """What became of a text's lines.

    Attributes:
      lines: of the text, and of its translation.
      empty: lines without a word, whose translations are empty.
      cut: sentences of more than `max_length` pieces, which lost their end.
    """

    lines: int = 0
    empty: int = 0
    cut: int = 0


def translate_file(trained, source, target, options, say=lambda line: None):
    """Translates a text: as many lines go out as come in, in their order.

    The text is looked through before the long work begins. The translation appears when it is whole.

    Args:
      trained: `training.trained_gnmt.TrainedGnmt`.
      source: path of a text, UTF-8, perhaps packed as .gz. A line ends at a line feed.
      target: path of its translation; what is there is replaced.
      options: Options.
      say: called with a line on each sentence that is cut, as far as they are named.

    Returns:
      `Counts`.

    Raises:
      ValueError: the text cannot be read, a line is not UTF-8 or too long, or the translation cannot be written.
    """
    if os.path.abspath(source) == os.path.abspath(target):
        raise InputError(f"--input and --output are both {source}. Give the translation another name.")
    counts = _looked_through(trained.vocabulary, source, options, say)
    search = searcher(trained, options)
    try:
        with processes.progress_bar(counts.lines, 0, " lines") as progress:
            atomic_write(
                target, lambda file: _write(trained.vocabulary, source, search, options, file, progress.update)
            )
    except OSError as error:
        raise InputError(f"--output={target} cannot be written: {error.strerror or error}.") from None
    finally:
        # Of a text that was left in its middle.
        if os.path.isfile(f"{target}.part"):
            os.remove(f"{target}.part")
    return counts


def translated(vocabulary, search, lines, options):
    """The translations of some lines, in their order; those of lines without a word are empty.

    Args:
      vocabulary: `translation_vocabulary.Vocabulary`.
      search: of `searcher`.
      lines: list of texts.
      options: Options.
    """
    from tfbigbatch.tasks.gnmt import texts_of

    sentences = [ids[: options.max_length] for ids in vocabulary.ids([normalised(line) for line in lines])]
    found = [""] * len(lines)
    # Sentences of about the same length go together.
    order = sorted((row for row, ids in enumerate(sentences) if ids), key=lambda row: len(sentences[row]))
    for first in range(0, len(order), options.batch_size):
        rows = order[first : first + options.batch_size]
        outputs = search([sentences[row] for row in rows])[: len(rows)]
        for row, text in zip(rows, texts_of(vocabulary, outputs)):
            found[row] = text
    return found


def searcher(trained, options):
    """A function from at most `batch_size` lists of ids to int32 [batch_size, max_decoded], END behind the last piece.

    It is compiled once for each of a few shapes.

    Args:
      trained: `training.trained_gnmt.TrainedGnmt`.
      options: Options.
    """
    import tensorflow as tf

    from tfbigbatch.models.gnmt import decoding

    given = {name: getattr(options, name) for name in trained.search}
    search = {**trained.search, **{name: value for name, value in given.items() if value is not None}}
    max_decoded = search.pop("max_decoded")

    @tf.function(jit_compile=options.jit_compile)
    def tokens_of(ids, lengths):
        found = decoding.translate(
            trained.network, ids, lengths, begin_token=BEGIN, end_token=END, max_length=max_decoded, **search
        )
        return found.tokens[:, 0]

    return lambda sentences: tokens_of(*map(tf.constant, _padded(sentences, options.batch_size))).numpy()


def _padded(sentences, batch_size):
    """(ids, lengths) of a static shape: END after each sentence and then 0, and rows of END alone up to the batch."""
    lengths = np.ones(batch_size, np.int32)
    lengths[: len(sentences)] += [len(ids) for ids in sentences]
    width = _SHORTEST
    while width < lengths.max():
        width *= 2
    ids = np.zeros([batch_size, width], np.int32)
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence)] = sentence
    ids[np.arange(batch_size), lengths - 1] = END
    return ids, lengths


def _looked_through(vocabulary, source, options, say):
    """The Counts of a text that can be translated."""
    counts = Counts()
    for lines in _blocks(source, texts.GRAIN):
        for number, ids in enumerate(vocabulary.ids([normalised(line) for line in lines]), counts.lines + 1):
            counts.empty += not ids
            if len(ids) <= options.max_length:
                continue
            if not options.cut:
                raise InputError(
                    f"{source}, line {number}: {len(ids):,} pieces, of which --max_length={options.max_length} are "
                    "allowed. Is it one sentence? Split it, raise --max_length, or pass --cut to translate the "
                    "beginning of such sentences."
                )
            counts.cut += 1
            if counts.cut <= _NAMED:
                say(f"warning: {source}, line {number}: {len(ids):,} pieces; cut to --max_length={options.max_length}")
        counts.lines += len(lines)
    return counts


def _write(vocabulary, source, search, options, file, tick):
    for lines in _blocks(source, _BLOCK * options.batch_size):
        for line in translated(vocabulary, search, lines, options):
            file.write(f"{line}\n".encode())
        tick(len(lines))


def _blocks(source, size):
    """Lists of `size` lines of a text."""
    lines = texts.lines(source)
    return iter(functools.partial(_taken, lines, size), [])


def _taken(lines, size):
    return list(itertools.islice(lines, size))
