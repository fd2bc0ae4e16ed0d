"""BERT's WordPiece tokenizer and packing as TensorFlow operations, for a SavedModel that takes text.

The ids are those of `data.tokenizer` and `data.finetuning.text_pairs`, but for a capital sigma at the end of a word and
for accents in another order than Unicode's canonical one: a character is looked up here without its neighbours. Own
code: tensorflow-text's kernels would have to be installed wherever the model is served.
"""

from __future__ import annotations

import itertools
from typing import Any

import tensorflow as tf

from tfbigbatch.data import tokenizer
from tfbigbatch.data.tokenizer import CONTINUES, LONGEST_WORD, Vocabulary

# In a character's replacement: the character itself.
_ITSELF = -1


class WordPiece(tf.Module):
    """Encodes texts as BERT's inputs.

    Args:
      vocabulary: of the model.
      lower_case: see `data.tokenizer.Tokenizer`.
    """

    def __init__(self, vocabulary: Vocabulary, lower_case: bool) -> None:
        super().__init__()
        self._vocabulary = vocabulary
        self._longest = max(len(token.removeprefix(CONTINUES)) for token in vocabulary.tokens)
        # The later id of a duplicate counts.
        ids = {token: number for number, token in enumerate(vocabulary.tokens)}
        self._tokens = _table(list(ids), list(ids.values()), tf.string, tf.int32)
        codes, self._replacements = _replacements(lower_case)
        self._codes = _table(codes, range(1, len(codes) + 1), tf.int32, tf.int32, missing=0)

    def ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """int32 [n, (tokens)] of the texts, string [n], without [CLS] and [SEP]."""
        words = tf.strings.split(self._normalised(texts))
        return words.with_values(self._pieces(words.values)).merge_dims(1, 2)

    def _normalised(self, texts: tf.Tensor) -> tf.Tensor:
        """The texts as they are looked up, with a space between words."""
        codes = tf.strings.unicode_decode(texts, "UTF-8")
        replaced = tf.gather(self._replacements, self._codes.lookup(codes.values))
        itself = tf.gather(codes.values, replaced.value_rowids())
        values = tf.where(replaced.values == _ITSELF, itself, replaced.values)
        return tf.strings.unicode_encode(codes.with_values(replaced.with_values(values)).merge_dims(1, 2), "UTF-8")

    def _pieces(self, words: tf.Tensor) -> tf.RaggedTensor:
        """int32 [words, (tokens)]: the longest tokens from the left, or [UNK] if they do not cover the word."""
        lengths = tf.strings.length(words, "UTF8_CHAR")
        known = lengths <= LONGEST_WORD
        start, columns = tf.zeros_like(lengths), tf.zeros([tf.size(words), 0], tf.int32)

        def is_left(start: tf.Tensor, known: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
            return tf.reduce_any(known & (start < lengths))

        def next_piece(start: tf.Tensor, known: tf.Tensor, columns: tf.Tensor) -> tuple[tf.Tensor, ...]:
            unfinished = known & (start < lengths)
            found, size = self._longest_piece(words, lengths, start, unfinished)
            found = tf.where(unfinished, found, -1)
            return start + size, known & ~(unfinished & (found < 0)), tf.concat([columns, found[:, None]], 1)

        shapes = tf.TensorShape([None]), tf.TensorShape([None]), tf.TensorShape([None, None])
        _, known, columns = tf.while_loop(is_left, next_piece, (start, known, columns), shapes)
        columns = tf.concat([tf.fill([tf.size(words), 1], -1), columns], 1)
        unknown = tf.one_hot(tf.zeros_like(lengths), tf.shape(columns)[1], self._vocabulary.unknown, -1)
        columns = tf.where(known[:, None], columns, unknown)
        return tf.ragged.boolean_mask(columns, columns >= 0)

    def _longest_piece(
        self, words: tf.Tensor, lengths: tf.Tensor, start: tf.Tensor, unfinished: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The id of the longest token at `start` of each word, -1 for none, and its characters."""
        left = tf.where(unfinished, lengths - start, 0)
        prefix = tf.where(start > 0, CONTINUES, "")
        position = tf.where(unfinished, start, 0)

        def shorter(size: tf.Tensor, found: tf.Tensor, sizes: tf.Tensor) -> tuple[tf.Tensor, ...]:
            candidates = prefix + tf.strings.substr(words, position, tf.fill(tf.shape(start), size), "UTF8_CHAR")
            ids = self._tokens.lookup(candidates)
            new = (found < 0) & (ids >= 0) & (size <= left)
            return size - 1, tf.where(new, ids, found), tf.where(new, size, sizes)

        most = tf.minimum(tf.reduce_max(left), self._longest)
        _, found, sizes = tf.while_loop(
            lambda size, found, sizes: (size > 0) & tf.reduce_any(unfinished & (found < 0)),
            shorter,
            (most, tf.fill(tf.shape(start), -1), tf.zeros_like(start)),
        )
        return found, sizes

    def pack(self, first: tf.Tensor, second: tf.Tensor | None, max_seq_length: int) -> dict[str, tf.Tensor]:
        """BERT's inputs of texts or pairs, as `text_pairs.pack` makes them.

        Args:
          first, second: string [n]; `second` is None for single texts.
          max_seq_length: tokens of a text or pair at most, the special ones included.

        Returns:
          int32 [n, T] each, T the longest of the n; see `text_pairs.pack`.
        """
        ids = [self.ids(texts) for texts in (first, second) if texts is not None]
        lengths = _kept([each.row_lengths() for each in ids], max_seq_length - len(ids) - 1)
        n = tf.size(first)
        classify, separate = (tf.fill([n, 1], id) for id in (self._vocabulary.classify, self._vocabulary.separate))
        parts = [classify]
        for each, kept in zip(ids, lengths):
            parts += [_first(each, kept), separate]
        words = tf.concat(parts, axis=1)
        of_first = lengths[0][:, None] + 2
        mask = tf.sequence_mask(words.row_lengths(), dtype=tf.int32)
        position = tf.range(tf.shape(mask, tf.int64)[1])[None]
        return {
            "input_word_ids": words.to_tensor(self._vocabulary.padding),
            "input_mask": mask,
            "input_type_ids": mask * tf.cast(position >= of_first, tf.int32),
        }


def _kept(lengths: list[tf.Tensor], room: int) -> list[tf.Tensor]:
    """The tokens kept of each text; see `text_pairs.kept`."""
    if len(lengths) == 1:
        return [tf.minimum(lengths[0], room)]
    first, second = lengths
    half = -(-room // 2)
    of_first = tf.where(second <= room - half, room - second, tf.minimum(first, half))
    of_first = tf.where(first + second <= room, first, of_first)
    return [of_first, tf.where(first + second <= room, second, room - of_first)]


def _first(ids: tf.RaggedTensor, kept: tf.Tensor) -> tf.RaggedTensor:
    """The first `kept` values of each row."""
    positions = tf.ragged.range(ids.row_lengths())
    return tf.ragged.boolean_mask(ids, positions.with_values(positions.values < tf.gather(kept, ids.value_rowids())))


def _table(keys: Any, values: Any, key_type: tf.DType, value_type: tf.DType, missing: int = -1) -> Any:
    content = tf.lookup.KeyValueTensorInitializer(tf.constant(keys, key_type), tf.constant(list(values), value_type))
    return tf.lookup.StaticHashTable(content, missing)


# Beyond the first range only tags and variation selectors have a category that matters; the rest stays as it is.
_RANGES = (range(0xD800), range(0xE000, 0x32400), range(0xE0000, 0xE0200))


def _replacements(lower_case: bool) -> tuple[list[int], tf.RaggedTensor]:
    """(characters, what each becomes) of all that do not stay as they are; the first row is for the others."""
    codes, values, lengths = [], [_ITSELF], [1]
    for code in itertools.chain.from_iterable(_RANGES):
        character = chr(code)
        replacement = tokenizer.replacement(character, lower_case)
        if replacement != character:
            codes.append(code)
            values += map(ord, replacement)
            lengths.append(len(replacement))
    return codes, tf.RaggedTensor.from_row_lengths(tf.constant(values, tf.int32), tf.constant(lengths, tf.int64))
