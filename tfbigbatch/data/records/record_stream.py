"""The records of a host, one run of them after the other: shuffled without end, or all of them once in order."""

import tensorflow as tf

# Padding has the number of no record.
PADDING = -1


def shuffled(reader, order, first_step):
    """Training's records, from an update on, epoch after epoch.

    Args:
      reader: RecordReader.
      order: RecordOrder of the reader's chunks.
      first_step: the update that the first record belongs to.

    Returns:
      tf.data.Dataset of (records, numbers, epoch), an element for each window: string [m], int64 [m] and
      int64 scalar. An empty string stands for a record that cannot be read.
    """
    first_epoch, first_window, taken = order.place(first_step)

    def read_window(epoch, window):
        first, size = order.pieces(epoch, window)
        total = tf.reduce_sum(size)
        records, numbers = reader.records((first, size)).rebatch(total).get_single_element()
        places = order.shuffled(epoch, window, total)
        skipped = tf.where((epoch == first_epoch) & (window == first_window), taken, 0)
        return tf.gather(records, places)[skipped:], tf.gather(numbers, places)[skipped:], epoch

    windows = tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(
        lambda epoch: tf.data.Dataset.range(order.windows(epoch)).map(lambda window: (epoch, window))
    )
    # One window is read while another is taken from.
    return windows.skip(first_window).map(read_window).prefetch(1)


def in_order(reader, share, steps):
    """Every record once, padded so that each update is whole.

    Args:
      reader: RecordReader.
      share: HostShare.
      steps: updates; as many as it takes.

    Returns:
      tf.data.Dataset of (records, numbers), runs of them: string [m] and int64 [m]; padding is an empty
      string of the number PADDING.
    """
    chunks, size = reader.chunks, reader.chunks.records
    chunk_order = tf.range(len(chunks.size), dtype=tf.int64)

    def of_step(step):
        start = tf.minimum(step * share.batch_size + share.host * share.part, size)
        stop = tf.minimum(start + share.part, size)
        padding = (share.part - (stop - start))[None]
        nothing = tf.data.Dataset.from_tensors((tf.fill(padding, ""), tf.fill(padding, tf.constant(PADDING, tf.int64))))
        return reader.records(chunks.pieces(chunk_order, start, stop)).concatenate(nothing)

    return tf.data.Dataset.range(steps).flat_map(of_step)
