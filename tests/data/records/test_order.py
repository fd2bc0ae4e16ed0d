import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.records.order import Chunks, HostSlice, RecordOrder, examples_at

COUNTS = (20, 3, 41, 8, 31)
RECORDS = sum(COUNTS)


def order_of(host=0, hosts=1, *, batch_size=12, seed=0, window=20, chunk_size=8):
    return RecordOrder(Chunks(np.array(COUNTS), chunk_size), HostSlice(batch_size, hosts, host), seed, window)


def read(order, step, steps):
    """The (epoch, record) pairs of a host's updates [step, step + steps)."""
    epoch, window, skip = order.position(step)
    found = []
    while len(found) < steps * order.host_slice.per_host + skip:
        if window == int(order.windows(tf.constant(epoch, tf.int64))):
            epoch, window = epoch + 1, 0
            continue
        at = tf.constant(epoch, tf.int64), tf.constant(window, tf.int64)
        first, size = order.pieces(*at, order.ends(at[0]))
        records = np.concatenate([np.arange(f, f + n) for f, n in zip(first.numpy(), size.numpy())])
        shuffled = order.shuffled(*at, tf.constant(len(records), tf.int64)).numpy()
        found += [(epoch, record) for record in records[shuffled]]
        window += 1
    return found[skip : skip + steps * order.host_slice.per_host]


def all_hosts(hosts, steps, **options):
    """The pairs of all hosts in the order of the global batches: [steps, batch_size, 2]."""
    slices = [np.reshape(read(order_of(host, hosts, **options), 0, steps), (steps, -1, 2)) for host in range(hosts)]
    return np.concatenate(slices, axis=1)


@pytest.mark.parametrize("counts", [COUNTS, (0, 16, 8, 0), (1, 1, 1), (5,), (0, 7)])
def test_pieces_are_those_of_a_sum_over_all_chunks(counts):
    order = RecordOrder(Chunks(np.array(counts), 8), HostSlice(3, 1, 0), seed=4, window=5)
    first = np.concatenate([np.arange(0, count, 8) + sum(counts[:file]) for file, count in enumerate(counts)])
    size = np.concatenate([np.minimum(8, count - np.arange(0, count, 8)) for count in counts])
    for epoch in range(2):
        at = tf.constant(epoch, tf.int64)
        chunks = examples_at(epoch * len(first) + np.arange(len(first)), seed=8, dataset_size=len(first)).numpy()
        expected = np.concatenate([np.arange(first[chunk], first[chunk] + size[chunk]) for chunk in chunks])
        ends = order.ends(at)
        for window in range(int(order.windows(at))):
            pieces = order.pieces(at, tf.constant(window, tf.int64), ends)
            found = [np.arange(begin, begin + count) for begin, count in zip(*(each.numpy() for each in pieces))]
            assert all(len(piece) for piece in found)
            np.testing.assert_array_equal(np.concatenate(found), expected[5 * window : 5 * window + 5])


@pytest.mark.parametrize("hosts", [1, 2, 3, 4])
def test_each_epoch_visits_each_record_exactly_once_on_any_number_of_hosts(hosts):
    epochs = 4
    steps = -(-epochs * RECORDS // 12)
    pairs = all_hosts(hosts, steps).reshape(-1, 2)
    for epoch in range(epochs):
        visited = pairs[epoch * RECORDS : (epoch + 1) * RECORDS]
        assert set(visited[:, 0]) == {epoch}
        np.testing.assert_array_equal(np.sort(visited[:, 1]), np.arange(RECORDS))


@pytest.mark.parametrize("hosts", [1, 3])
def test_any_step_is_found_again_in_the_window_that_holds_it(hosts):
    for host in range(hosts):
        order = order_of(host, hosts)
        whole = read(order, 0, 40)
        for step in (1, 8, 9, 17, 26, 33, 39):
            assert (
                read(order, step, 1) == whole[step * order.host_slice.per_host : (step + 1) * order.host_slice.per_host]
            )
            assert order.position(step)[2] < order.window


def test_seeds_epochs_and_windows_are_shuffled_differently():
    orders = [tuple(record for _, record in read(order_of(seed=seed), 0, 9)) for seed in (0, 1, 2)]
    assert len(set(orders)) == 3
    order = order_of(window=10)
    lists = [
        tuple(order.shuffled(tf.constant(epoch, tf.int64), tf.constant(window, tf.int64), 10).numpy())
        for epoch in (0, 1)
        for window in (0, 1, 2)
    ]
    assert len(set(lists)) == 6


def indices(first, last, *, seed=0, dataset_size):
    return examples_at(tf.range(first, last, dtype=tf.int64), seed=seed, dataset_size=dataset_size).numpy()


@pytest.mark.parametrize("dataset_size", [1, 2, 7, 64, 1437])
def test_each_epoch_is_a_permutation_of_the_examples(dataset_size):
    epochs = indices(0, 3 * dataset_size, dataset_size=dataset_size).reshape(3, dataset_size)
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(dataset_size))


def test_epochs_and_seeds_are_shuffled_differently_and_well():
    size = 1437
    runs = [indices(0, size, seed=seed, dataset_size=size) for seed in range(6)]
    runs += list(indices(0, 6 * size, seed=99, dataset_size=size).reshape(6, size))
    runs.append(np.arange(size))
    correlations = np.corrcoef(runs) - np.eye(len(runs))
    # Independent permutations correlate by about 1 / sqrt(size) = 0.026.
    assert np.abs(correlations).max() < 5 / np.sqrt(size)
