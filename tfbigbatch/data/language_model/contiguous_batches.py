"""One long text as parallel streams: windows of tokens whose state is carried from one to the next.

N tokens are N - 1 predictions, each of the token after. A batch of B streams cuts them into B parts in
a row of L = ceil((N - 1) / B); an update reads the next window of T tokens from every stream, so that
an epoch has W = ceil(L / T) updates. Update `step` is window step % W of epoch step // W: a pure
function of the step. The text keeps its order, so there is no seed. A replica has the same streams
in every update, and they are neighbours in the text.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from tfbigbatch.data.in_memory import arrays
from tfbigbatch.errors import InputError

# Windows that an evaluation's stream reads before its own part: an LSTM has forgotten what lies farther back.
_BURN_IN = 4


@dataclasses.dataclass(frozen=True)
class Streams:
    """A text of token numbers, read as streams. The example of a batch is a stream's window.

    Attributes:
      tokens: integer array of [N], N at least 2.
      vocabulary_size: tokens are in [0, vocabulary_size).
      window: T, the tokens of a stream in one update.
      source: where they come from, for errors and the run's banner.
    """

    tokens: np.ndarray
    vocabulary_size: int
    window: int
    source: str

    def __post_init__(self):
        if self.window < 1:
            raise InputError(f"model.window={self.window}: expected 1 or more tokens.")
        if len(self.tokens) < 2:
            raise InputError(f"{self.source}: {len(self.tokens)} token(s); a prediction takes 2.")
        wrong = np.flatnonzero((self.tokens < 0) | (self.tokens >= self.vocabulary_size))
        if wrong.size:
            raise InputError(
                f"{self.source}: token {int(self.tokens[wrong[0]])} at {int(wrong[0])} is out of range; "
                f"expected 0 to {self.vocabulary_size - 1} ({wrong.size} such tokens)."
            )

    @property
    def predictions(self):
        """How many tokens are predicted in an epoch: all but the first."""
        return len(self.tokens) - 1

    @property
    def contents(self):
        """What the text holds, in words, for the run's banner."""
        return f"{len(self.tokens):,} tokens, {self.vocabulary_size:,} words"

    @property
    def tokens_per_example(self):
        """Tokens in one stream's window."""
        return self.window

    def examples_in_epoch(self, batch_size):
        """Windows in an epoch of `batch_size` streams, a multiple of it: an epoch is a whole number of updates."""
        return self._windows(self._length(batch_size)) * batch_size

    def training_batches(self, context, *, batch_size, seed, first_step, last_step):
        """Windows for this worker's replicas, in the order of the text.

        Args:
          context: tf.distribute.InputContext of this worker.
          batch_size: streams over all replicas; a multiple of their number.
          seed: not used; the text has its order.
          first_step, last_step: the updates [first_step, last_step) that the data set covers.

        Returns:
          tf.data.Dataset of (inputs, labels, mask) with b = batch_size / replicas; the replicas of this
          worker take turns. Inputs are a dictionary: 'tokens' int32 [b, T]; 'fresh' bool [b], true where
          a stream begins, so that its state is zero; 'stream' int32 [b], the stream's number within its
          replica. Labels are int32 [b, T], the tokens after. The float32 mask [b, T] is 0 past a stream's
          end, where a label stands for nothing. Each prediction has its turn once an epoch.
        """
        del seed
        length = self._length(batch_size)
        windows = self._windows(length)

        def batch_of(positions):
            window, stream = (positions // batch_size) % windows, positions % batch_size
            return self._window(window, stream, length, fresh=tf.equal(window, 0), burn_in=0)

        return arrays.replica_batches(
            batch_of, context, batch_size=batch_size, first_step=first_step, last_step=last_step
        )

    def evaluation_batches(self, context, *, batch_size):
        """Every prediction once, whatever the number of streams.

        A stream that began with zero state would predict its first tokens worse, and the more so the more
        streams there are. Each therefore reads the few windows before its part too, under a mask of 0,
        and begins with a state that knows them; where the text begins, the state is zero.

        Returns:
          tf.data.Dataset as that of `training_batches`, of `evaluation_steps(batch_size)` batches.
        """
        length = self._length(batch_size)

        def batch_of(positions):
            window, stream = positions // batch_size, positions % batch_size
            start = stream * length + (window - _BURN_IN) * self.window
            # The first window, and any whose window before did not lie in the text as a whole.
            fresh = tf.equal(window, 0) | (start < self.window)
            return self._window(window, stream, length, fresh=fresh, burn_in=_BURN_IN)

        return arrays.replica_batches(
            batch_of, context, batch_size=batch_size, first_step=0, last_step=self.evaluation_steps(batch_size)
        )

    def evaluation_steps(self, batch_size):
        """The number of batches that hold every prediction once, with the windows read before."""
        return self._windows(self._length(batch_size)) + _BURN_IN

    def _length(self, batch_size):
        """L, the predictions of one stream; the last streams may have fewer."""
        if not 1 <= batch_size <= self.predictions:
            raise InputError(
                f"{self.source}: {self.predictions} predictions cannot be cut into {batch_size} streams. "
                "Use a batch_size and an evaluation_batch_size from 1 to that many."
            )
        return -(-self.predictions // batch_size)

    def _windows(self, length):
        return -(-length // self.window)

    def _window(self, window, stream, length, *, fresh, burn_in):
        """The batch of window number `window` of each of the streams, all int64 [b]."""
        tokens = tf.constant(self.tokens, tf.int32)
        within = ((window - burn_in) * self.window)[:, tf.newaxis] + tf.range(self.window, dtype=tf.int64)
        position = stream[:, tf.newaxis] * length + within
        counts = (within >= 0) & (within < length) & (position < self.predictions)
        position = tf.clip_by_value(position, 0, self.predictions - 1)
        inputs = {
            "tokens": tf.gather(tokens, position),
            "fresh": fresh,
            "stream": tf.cast(stream - stream[0], tf.int32),
        }
        return inputs, tf.gather(tokens, position + 1), tf.cast(counts, tf.float32)
