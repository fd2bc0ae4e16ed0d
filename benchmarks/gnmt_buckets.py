"""An epoch of training batches, padded to the shapes of their buckets or all to the longest pair, of made-up ids."""

import numpy as np


def lengths(data_dir, pairs, longest, seed=0):
    """The tokens of some sentences and of their translations, END included.

    Args:
      data_dir: a folder of tools/prepare_wmt.py, of whose training pairs some are drawn; None to make them up.
      pairs: how many.
      longest: of those that are made up.
      seed: of what is drawn.

    Returns:
      integer array of [pairs, 2].
    """
    random = np.random.RandomState(seed)
    if data_dir is not None:
        from tfbigbatch.data.translation import manifest

        found = manifest.load(data_dir).lengths["train"].astype(np.int64) + 1
        return found[random.randint(0, len(found), pairs)]
    # About as of corpora: most sentences are of a third of the longest, and few as long as that.
    source = random.lognormal(np.log(longest / 3), 0.4, pairs)
    both = np.stack([source, source * random.uniform(0.8, 1.25, pairs)], axis=1)
    return np.clip(both.round(), 2, longest).astype(np.int64)


def batches(of_pairs, shapes, batch_size, vocabulary_size, *, begin, end, seed=0):
    """An epoch of batches in the trainer's order, each cut to the shape that its pairs fit.

    Args:
      of_pairs: integer array of [pairs, 2], their lengths; whole batches.
      shapes: of `length_buckets.choose`.
      batch_size: pairs in a batch.
      vocabulary_size: the ids are made up of.
      begin, end: the ids of the tokens around a sentence; others are above both.
      seed: of the order and the ids.

    Returns:
      list of (inputs, labels, weights), NumPy arrays.
    """
    import tensorflow as tf

    from tfbigbatch.data.translation import length_buckets
    from tfbigbatch.data.translation.bucket_order import BucketOrder

    random = np.random.RandomState(seed)
    buckets = length_buckets.buckets_of(of_pairs, shapes)
    order = BucketOrder(buckets, batch_size, seed, block=50)
    blocks = [order.examples(*tf.constant([0, block], tf.int64)).numpy() for block in range(order.blocks(0))]
    found = []
    for numbers in np.concatenate(blocks).reshape(-1, batch_size):
        sides = []
        for side, width in enumerate(shapes[buckets[numbers].max()]):
            size = of_pairs[numbers, side][:, None]
            ids = random.randint(max(begin, end) + 1, vocabulary_size, [batch_size, width])
            sides.append(np.where(np.arange(width) < size - 1, ids, np.where(np.arange(width) < size, end, 0)))
        source, labels = (ids.astype(np.int32) for ids in sides)
        target = np.concatenate([np.full([batch_size, 1], begin, np.int32), labels[:, :-1]], axis=1)
        inputs = {"source_ids": source, "source_lengths": of_pairs[numbers, 0].astype(np.int32), "target_ids": target}
        found.append((inputs, labels, (labels > 0).astype(np.float32)))
    return found
