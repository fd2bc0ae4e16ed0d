"""Contiguous batches of one long text: parallel streams of windows, for truncated backpropagation through time.

N tokens give N - 1 next-token predictions. A batch of B streams divides them into B consecutive parts of
L = ceil((N - 1) / B). A step reads the next window of T tokens from every stream, so an epoch has W = ceil(L / T)
steps. Step s is window s % W of epoch s // W: a pure function of the step, without a seed. A replica has the same,
neighbouring streams in every step.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tfbigbatch.data.dataset import Dataset
from tfbigbatch.data.sources.by_index import replica_batches
from tfbigbatch.errors import InputError

# Windows that a stream of evaluation reads before its own part: an LSTM has forgotten what is farther back.
_BURN_IN = 4


@dataclasses.dataclass(frozen=True)
class Streams(Dataset):
    """A text of token ids as streams. An example is a window of a stream.

    Batches are (inputs, labels, mask) of b = batch_size / replicas streams. Inputs: 'tokens' int32 [b, T]; 'fresh' bool
    [b], True where a stream begins with zero state; 'stream' int32 [b], the index of the stream in its replica. Labels
    int32 [b, T] are the next tokens. The float32 mask [b, T] is 0 past the end of a stream.

    Attributes:
      tokens: integer [N], N at least 2.
      vocabulary_size: tokens are in [0, vocabulary_size).
      window: T, tokens of a stream in one step.
      source: where the text comes from.
    """

    tokens: np.ndarray
    vocabulary_size: int
    window: int
    source: str

    def __post_init__(self) -> None:
        if self.window < 1:
            raise InputError(f"model.window={self.window}: expected 1 or more tokens.")
        if len(self.tokens) < 2:
            raise InputError(f"{self.source}: {len(self.tokens)} token(s); a prediction takes 2.")

    @property
    def predictions(self) -> int:
        """Predictions in an epoch: of all tokens but the first."""
        return len(self.tokens) - 1

    @property
    def contents(self) -> str:
        return f"{len(self.tokens):,} tokens, {self.vocabulary_size:,} words"

    @property
    def tokens_per_example(self) -> int:
        return self.window

    def examples_in_epoch(self, batch_size: int) -> int:
        """Windows in an epoch of `batch_size` streams, a multiple of it."""
        return self._windows(self._length(batch_size)) * batch_size

    def training_batches(
        self, context: tf.distribute.InputContext, *, batch_size: int, seed: int, first_step: int, last_step: int
    ) -> tf.data.Dataset:
        """Windows in text order; `seed` is not used. Each prediction occurs once in an epoch."""
        return self._batches(context, batch_size, first_step, last_step, burn_in=0)

    def evaluation_batches(self, context: tf.distribute.InputContext, *, batch_size: int) -> tf.data.Dataset:
        """Every prediction once, for any number of streams.

        A stream that began with zero state would predict its first tokens worse, the more so the more streams there
        are. So each first reads the windows before its part, with mask 0; the state is zero only at the start of the
        text.
        """
        return self._batches(context, batch_size, 0, self.evaluation_steps(batch_size), burn_in=_BURN_IN)

    def evaluation_steps(self, batch_size: int) -> int:
        """Batches that contain every prediction once, with the windows read before."""
        return self._windows(self._length(batch_size)) + _BURN_IN

    def _length(self, batch_size: int) -> int:
        """L, the predictions of a stream; the last streams may have fewer."""
        if not 1 <= batch_size <= self.predictions:
            raise InputError(
                f"{self.source}: {self.predictions} predictions cannot be cut into {batch_size} streams. "
                "Use a batch_size and an evaluation_batch_size from 1 to that many."
            )
        return -(-self.predictions // batch_size)

    def _windows(self, length: int) -> int:
        return -(-length // self.window)

    def _batches(
        self, context: tf.distribute.InputContext, batch_size: int, first_step: int, last_step: int, *, burn_in: int
    ) -> tf.data.Dataset:
        """The batches of some steps, each stream `burn_in` windows ahead of its part."""
        length = self._length(batch_size)
        windows = self._windows(length) + burn_in

        def batch_of(positions: tf.Tensor) -> Any:
            tokens = tf.constant(self.tokens, tf.int32)
            window, stream = (positions // batch_size) % windows, positions % batch_size
            begin = (window - burn_in) * self.window
            # The first window, and any with a previous window not entirely in the text.
            fresh = tf.equal(window, 0) | (tf.constant(burn_in > 0) & (stream * length + begin < self.window))
            within = begin[:, tf.newaxis] + tf.range(self.window, dtype=tf.int64)
            position = stream[:, tf.newaxis] * length + within
            counts = (within >= 0) & (within < length) & (position < self.predictions)
            position = tf.clip_by_value(position, 0, self.predictions - 1)
            inputs = {
                "tokens": tf.gather(tokens, position),
                "fresh": fresh,
                "stream": tf.cast(stream - stream[0], tf.int32),
            }
            return inputs, tf.gather(tokens, position + 1), tf.cast(counts, tf.float32)

        return replica_batches(batch_of, context, batch_size=batch_size, first_step=first_step, last_step=last_step)
