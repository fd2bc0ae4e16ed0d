"""Translates a text with the network of a run.

    tfbigbatch translate --model_dir=runs/multi30k --input=test.en --output=test.de

The text is detokenized, with one sentence per line and single spaces, and so is the translation; an empty line stays
empty. The run directory is all that is needed: the newest checkpoint, or that of --step, and the vocabulary that the
run stores. Beam search and penalties default to those of the run's evaluations; --beam_size=1 is greedy search. The
output file appears only when it is complete.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from absl import flags

from tfbigbatch.data.translation.prepare import texts
from tfbigbatch.data.translation.vocabulary import BEGIN, END, normalised
from tfbigbatch.errors import InputError
from tfbigbatch.runs import stored_run
from tfbigbatch.utils import processes
from tfbigbatch.utils.files import atomic_write

if TYPE_CHECKING:
    import tensorflow as tf

    from tfbigbatch.runs.load_gnmt import TrainedGnmt

# Batches that are held in memory and sorted by length together.
_BLOCK = 50
# Shortest padded length; the others are its doublings.
_SHORTEST = 16
# Truncated lines to warn about.
_NAMED = 10


@dataclasses.dataclass(frozen=True)
class Options:
    """How a text is translated; None means the value of the run's evaluations.

    Attributes:
      batch_size: sentences per batch.
      beam_size, length_penalty, coverage_penalty: see `beam_search`; 1 for greedy search.
      max_decoded: largest number of tokens in a translation.
      max_length: largest number of tokens in a sentence.
      cut: truncate longer sentences; otherwise they are errors.
      jit_compile: compile the search with XLA.

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

    def __post_init__(self) -> None:
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
    """Counts of the lines of a text.

    Attributes:
      lines: all, equal to the lines of the translation.
      empty: lines without a word, with empty translations.
      cut: sentences truncated to `max_length` tokens.
    """

    lines: int = 0
    empty: int = 0
    cut: int = 0


def define_flags() -> None:
    flags.DEFINE_string("model_dir", None, "Run directory.", required=True)
    flags.DEFINE_string("input", None, "Text to translate; UTF-8, may be compressed as .gz.", required=True)
    flags.DEFINE_string("output", None, "Path of the translation.", required=True)
    flags.DEFINE_integer("step", None, "Step of the checkpoint. Default: the newest.")
    flags.DEFINE_string("vocabulary", None, "Sentencepiece model, for a run whose directory has none.")
    flags.DEFINE_integer("batch_size", 64, "Sentences per batch.")
    flags.DEFINE_integer("beam_size", None, "Beam size; 1 is greedy search.")
    flags.DEFINE_float("length_penalty", None, "Exponent of GNMT's length normalization; 0 for none.")
    flags.DEFINE_float("coverage_penalty", None, "Factor of GNMT's coverage penalty; 0 for none.")
    flags.DEFINE_integer("max_decoded", None, "Largest number of tokens in a translation.")
    flags.DEFINE_integer("max_length", 150, "Largest number of tokens in a sentence; a longer one is an error.")
    flags.DEFINE_bool("cut", False, "Truncate sentences longer than --max_length instead of failing.")
    flags.DEFINE_bool("jit_compile", False, "Compile the search with XLA; pays off for long texts.")


def main(arguments: Sequence[str]) -> None:
    flag = flags.FLAGS
    options = Options(**{field.name: flag[field.name].value for field in dataclasses.fields(Options)})
    _check_paths(flag.model_dir, flag.input, flag.output)
    # Imported after the flags are checked: it imports TensorFlow.
    from tfbigbatch.runs import load_gnmt

    trained = load_gnmt.load(flag.model_dir, step=flag.step, vocabulary=flag.vocabulary)
    print(f"checkpoint  step {trained.step:,} of {flag.model_dir}, {len(trained.vocabulary):,} pieces", flush=True)
    started = time.perf_counter()
    counts = translate_file(trained, flag.input, flag.output, options, say=lambda line: print(line, flush=True))
    seconds = time.perf_counter() - started
    print(
        f"translated  {counts.lines:,} lines ({counts.empty:,} empty, {counts.cut:,} cut) in {seconds:.1f} s, "
        f"{counts.lines / seconds:.1f} a second"
    )
    print(f"written     {flag.output}")


def _check_paths(model_dir: str, source: str, target: str) -> None:
    """Checks what needs no TensorFlow of the paths.

    Raises:
      ValueError: one is missing, or the translation would replace the text.
    """
    if stored_run.content_of(model_dir) is None:
        raise InputError(f"--model_dir={model_dir} holds no run: it has no config.json. Give a run directory of GNMT.")
    if not os.path.isfile(source):
        raise InputError(f"--input={source}: no such file; expected a text with one sentence per line.")
    if not os.path.isdir(os.path.dirname(target) or "."):
        raise InputError(f"--output={target}: there is no folder {os.path.dirname(target)}.")
    if os.path.abspath(source) == os.path.abspath(target):
        raise InputError(f"--input and --output are both {source}. Give the translation another name.")


def translate_file(
    trained: TrainedGnmt,
    source: str,
    target: str,
    options: Options,
    say: Callable[[str], None] = lambda line: None,
) -> Counts:
    """Translates a text line by line.

    The text is checked before the first translation. The target file appears only when it is complete.

    Args:
      trained: see `runs.load_gnmt`.
      source: path of a UTF-8 text, perhaps compressed as .gz; lines end at a line feed.
      target: path of the translation; an existing file is replaced.
      options: see `Options`.
      say: called with a warning for each of the first truncated sentences.

    Raises:
      ValueError: the text cannot be read, a line is not UTF-8 or too long, or the translation cannot be written.
    """
    if os.path.abspath(source) == os.path.abspath(target):
        raise InputError(f"--input and --output are both {source}. Give the translation another name.")
    counts = _check(trained.vocabulary, source, options, say)
    search = searcher(trained, options)
    try:
        with processes.progress_bar(counts.lines, 0, " lines") as progress:
            atomic_write(
                target, lambda file: _write(trained.vocabulary, source, search, options, file, progress.update)
            )
    except OSError as error:
        raise InputError(f"--output={target} cannot be written: {error.strerror or error}.") from None
    finally:
        # Left behind by an interrupted translation.
        if os.path.isfile(f"{target}.part"):
            os.remove(f"{target}.part")
    return counts


def translated(
    vocabulary: Any, search: Callable[[list[list[int]]], np.ndarray], lines: list[str], options: Options
) -> list[str]:
    """The translations of some lines, in their order; a line without a word gives an empty one.

    Args:
      vocabulary: `data.translation.vocabulary.Vocabulary`.
      search: from `searcher`.
      lines: texts.
      options: see `Options`.
    """
    from tfbigbatch.tasks.gnmt import texts_of

    sentences = [ids[: options.max_length] for ids in vocabulary.ids([normalised(line) for line in lines])]
    found = [""] * len(lines)
    # Sentences of similar length share a batch.
    order = sorted((row for row, ids in enumerate(sentences) if ids), key=lambda row: len(sentences[row]))
    for first in range(0, len(order), options.batch_size):
        rows = order[first : first + options.batch_size]
        outputs = search([sentences[row] for row in rows])[: len(rows)]
        for row, text in zip(rows, texts_of(vocabulary, outputs)):
            found[row] = text
    return found


def searcher(trained: TrainedGnmt, options: Options) -> Callable[[list[list[int]]], np.ndarray]:
    """A function from at most `batch_size` lists of ids to int32 [batch_size, max_decoded], with END after each output.

    It is traced once for each of a few input shapes.
    """
    import tensorflow as tf

    from tfbigbatch.models.gnmt import decoding

    given = {name: getattr(options, name) for name in trained.search}
    search = {**trained.search, **{name: value for name, value in given.items() if value is not None}}
    max_decoded = search.pop("max_decoded")

    @tf.function(jit_compile=options.jit_compile)
    def tokens_of(ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        found = decoding.translate(
            trained.network, ids, lengths, begin_token=BEGIN, end_token=END, max_length=max_decoded, **search
        )
        return found.tokens[:, 0]

    return lambda sentences: tokens_of(*map(tf.constant, _padded(sentences, options.batch_size))).numpy()


def _padded(sentences: list[list[int]], batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """(ids, lengths) of a static shape: END after each sentence, zero padding, and rows of a single END to fill up."""
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


def _check(vocabulary: Any, source: str, options: Options, say: Callable[[str], None]) -> Counts:
    """Counts the lines of a text; raises ValueError where it cannot be translated."""
    counts = Counts()
    for lines in _blocks(source, texts.GRAIN):
        for number, ids in enumerate(vocabulary.ids([normalised(line) for line in lines]), counts.lines + 1):
            counts.empty += not ids
            if len(ids) <= options.max_length:
                continue
            if not options.cut:
                raise InputError(
                    f"{source}, line {number}: {len(ids):,} pieces, more than --max_length={options.max_length}. "
                    "Is it one sentence? Split it, raise --max_length, or pass --cut to translate the "
                    "beginning of such sentences."
                )
            counts.cut += 1
            if counts.cut <= _NAMED:
                say(f"warning: {source}, line {number}: {len(ids):,} pieces; cut to --max_length={options.max_length}")
        counts.lines += len(lines)
    return counts


def _write(
    vocabulary: Any,
    source: str,
    search: Callable[[list[list[int]]], np.ndarray],
    options: Options,
    file: BinaryIO,
    tick: Callable[[int], object],
) -> None:
    for lines in _blocks(source, _BLOCK * options.batch_size):
        for line in translated(vocabulary, search, lines, options):
            file.write(f"{line}\n".encode())
        tick(len(lines))


def _blocks(source: str, size: int) -> Iterator[list[str]]:
    """Lists of `size` lines of a text."""
    lines = texts.lines(source)
    return iter(lambda: list(itertools.islice(lines, size)), [])
