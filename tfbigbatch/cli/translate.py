"""Translates a text with the network of a run.

    tfbigbatch translate --model_dir=runs/multi30k --input=test.en --output=test.de

The text is detokenized, with one sentence per line and single spaces, and so is the translation; an empty line stays
empty, and a sentence longer than --max_length is cut there, and counted. The run directory is all that is needed: the
newest checkpoint, or that of --step, and the vocabulary that the run stores. Beam search and penalties default to those
of the run's evaluations; --beam_size=1 is greedy search. The output file appears only when it is complete.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from absl import flags

from tfbigbatch.data import text_files
from tfbigbatch.data.translation.vocabulary import BEGIN, END, normalised
from tfbigbatch.errors import InputError
from tfbigbatch.run_directory.directory import RunDirectory
from tfbigbatch.tasks.gnmt import texts_of
from tfbigbatch.utils import processes
from tfbigbatch.utils.files import atomic_write

if TYPE_CHECKING:
    import tensorflow as tf

    from tfbigbatch.run_directory.load_gnmt import TrainedGnmt

# Batches that are held in memory and sorted by length together.
_BLOCK = 50
# Flags that default to the values of the run's evaluations.
_SEARCH = ("beam_size", "length_penalty", "coverage_penalty", "max_decoded")


def define_flags() -> None:
    flags.DEFINE_string("model_dir", None, "Run directory.", required=True)
    flags.DEFINE_string("input", None, "Text to translate; UTF-8, may be compressed as .gz.", required=True)
    flags.DEFINE_string("output", None, "Path of the translation.", required=True)
    flags.DEFINE_integer("step", None, "Step of the checkpoint. Default: the newest.")
    flags.DEFINE_integer("batch_size", 64, "Sentences per batch.", lower_bound=1)
    flags.DEFINE_integer("beam_size", None, "Beam size; 1 is greedy search.", lower_bound=1)
    flags.DEFINE_float("length_penalty", None, "Exponent of GNMT's length normalization; 0 for none.", lower_bound=0)
    flags.DEFINE_float("coverage_penalty", None, "Factor of GNMT's coverage penalty; 0 for none.", lower_bound=0)
    flags.DEFINE_integer("max_decoded", None, "Largest number of tokens in a translation.", lower_bound=1)
    flags.DEFINE_integer("max_length", 150, "Number of tokens at which longer sentences are cut.", lower_bound=1)


def main(arguments: Sequence[str]) -> None:
    flag = flags.FLAGS
    if os.path.realpath(flag.input) == os.path.realpath(flag.output):
        raise InputError(f"--input and --output are both {flag.input}. Give the translation another name.")
    RunDirectory(flag.model_dir).started()
    # Imported after the flags are checked: it imports TensorFlow.
    from tfbigbatch.run_directory import load_gnmt

    trained = load_gnmt.load(flag.model_dir, step=flag.step)
    print(f"checkpoint  step {trained.step:,} of {flag.model_dir}, {len(trained.vocabulary):,} pieces", flush=True)
    search = {name: flag[name].value for name in _SEARCH if flag[name].value is not None}
    translator = Translator(trained, flag.batch_size, flag.max_length, **search)
    started = time.perf_counter()
    counts = translator.translate_file(flag.input, flag.output)
    seconds = time.perf_counter() - started
    print(
        f"translated  {counts['lines']:,} lines ({counts['empty']:,} empty, {counts['cut']:,} cut) in {seconds:.1f} s, "
        f"{counts['lines'] / seconds:.1f} a second"
    )
    print(f"written     {flag.output}")


class Translator:
    """Translates lines with a trained network.

    Args:
      trained: see `run_directory.load_gnmt`.
      batch_size: sentences per batch.
      max_length: largest number of tokens in a sentence; longer ones are truncated.
      **search: 'beam_size', 'length_penalty', 'coverage_penalty' (see `gnmt.translate`) and 'max_decoded', where
        they are not those of the run's evaluations.
    """

    def __init__(self, trained: TrainedGnmt, batch_size: int, max_length: int, **search: Any) -> None:
        import tensorflow as tf

        from tfbigbatch.models import gnmt

        self._vocabulary, self._batch_size, self._max_length = trained.vocabulary, batch_size, max_length
        options = {**trained.search, **search}
        max_decoded = options.pop("max_decoded")

        # Traced once, for any number of sentences of any length.
        @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
        def tokens_of(sentences: tf.RaggedTensor) -> tf.Tensor:
            ids, lengths = sentences.to_tensor(), tf.cast(sentences.row_lengths(), tf.int32)
            found = gnmt.translate(
                trained.network, ids, lengths, begin_token=BEGIN, end_token=END, max_length=max_decoded, **options
            )
            return found.tokens

        self._search = lambda sentences: tokens_of(tf.ragged.constant(sentences, dtype=tf.int32)).numpy()

    def translate(self, sentences: list[list[int]]) -> list[str]:
        """The translations of sentences, which are lists of tokens, in their order; that of an empty one is empty."""
        sentences = [ids[: self._max_length] for ids in sentences]
        found = [""] * len(sentences)
        # Sentences of similar length share a batch.
        order = sorted((row for row, ids in enumerate(sentences) if ids), key=lambda row: len(sentences[row]))
        for first in range(0, len(order), self._batch_size):
            rows = order[first : first + self._batch_size]
            outputs = self._search([[*sentences[row], END] for row in rows])
            for row, text in zip(rows, texts_of(self._vocabulary, outputs)):
                found[row] = text
        return found

    def translate_file(self, source: str, target: str) -> collections.Counter[str]:
        """Translates a text line by line. The target file appears only when it is complete.

        Args:
          source: path of a UTF-8 text, perhaps compressed as .gz; lines end at a line feed.
          target: path of the translation; an existing file is replaced.

        Returns:
          The number of 'lines'; of those 'empty' without a word, and of those 'cut' at `max_length` tokens.

        Raises:
          ValueError: the text cannot be read, a line is not UTF-8, or the translation cannot be written.
        """
        texts, counts = text_files.lines(source), collections.Counter(lines=0)

        def write(file: BinaryIO) -> None:
            with processes.progress_bar(None, 0, " lines") as progress:
                while lines := list(itertools.islice(texts, _BLOCK * self._batch_size)):
                    sentences = self._vocabulary.ids(list(map(normalised, lines)))
                    file.write("".join(f"{line}\n" for line in self.translate(sentences)).encode())
                    cut = sum(len(ids) > self._max_length for ids in sentences)
                    counts.update(lines=len(lines), empty=sum(not ids for ids in sentences), cut=cut)
                    progress.update(len(lines))

        try:
            atomic_write(target, write)
        except OSError as error:
            raise InputError(f"--output={target} cannot be written: {error.strerror or error}.") from None
        finally:
            # Left behind by an interrupted translation.
            with contextlib.suppress(FileNotFoundError):
                os.remove(f"{target}.part")
        return counts
