import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.language_model.contiguous_batches import _BURN_IN, Streams


def streams(size=103, window=5):
    return Streams(np.arange(size, dtype=np.int32), size, window, "test")


def context(replicas, workers=1, worker=0):
    return tf.distribute.InputContext(workers, worker, replicas)


def training(data, batch_size, first_step, last_step, replicas=1, **workers):
    return list(
        data.training_batches(
            context(replicas, **workers), batch_size=batch_size, seed=0, first_step=first_step, last_step=last_step
        )
    )


@pytest.mark.parametrize("batch_size", [1, 4, 12, 40, 102])
@pytest.mark.parametrize("replicas", [1, 2])
def test_an_epoch_predicts_every_token_once_and_streams_go_on_where_they_stopped(batch_size, replicas):
    data = streams()
    batch_size -= batch_size % replicas
    if batch_size == 0:
        pytest.skip("less than a stream a replica")
    steps = data.examples_in_epoch(batch_size) // batch_size
    seen, last = [], {}
    for turn, (x, y, mask) in enumerate(training(data, batch_size, 0, 2 * steps, replicas)):
        step, replica = turn // replicas, turn % replicas
        tokens, y, mask = x["tokens"].numpy(), y.numpy(), mask.numpy().astype(bool)
        assert tokens.shape == y.shape == mask.shape == (batch_size // replicas, 5)
        np.testing.assert_array_equal(y[mask], tokens[mask] + 1)
        np.testing.assert_array_equal(x["stream"], np.arange(batch_size // replicas))
        assert (x["fresh"].numpy() == (step % steps == 0)).all()
        for stream in range(batch_size // replicas):
            own = tokens[stream][mask[stream]]
            if own.size and step % steps:
                assert own[0] == last[replica, stream] + 1
            if own.size:
                last[replica, stream] = own[-1]
        seen.extend(y[mask])
    np.testing.assert_array_equal(np.sort(seen), np.repeat(np.arange(1, 103), 2))


@pytest.mark.parametrize("batch_size", [1, 2, 4, 12, 36, 102])
def test_evaluation_counts_every_prediction_once_after_a_burn_in(batch_size):
    data = streams()
    replicas = 2 if batch_size % 2 == 0 else 1
    batches = list(data.evaluation_batches(context(replicas), batch_size=batch_size))
    assert len(batches) == data.evaluation_steps(batch_size) * replicas
    seen, read = [], {}
    for turn, (x, y, mask) in enumerate(batches):
        mask = mask.numpy().astype(bool)
        seen.extend(y.numpy()[mask])
        for stream, (tokens, counts, fresh) in enumerate(zip(x["tokens"].numpy(), mask, x["fresh"].numpy())):
            key = turn % replicas, stream
            if fresh:
                read[key] = []
            read[key].append(tokens)
            if counts.any():
                # What the state knows is the text's own order, from its beginning or from the burn-in.
                known = np.concatenate(read[key])[: -5 + np.flatnonzero(counts)[-1] + 1 or None]
                np.testing.assert_array_equal(np.diff(known), 1)
                first = tokens[counts][0]
                assert len(known) - counts.sum() >= min(first, _BURN_IN * 5) - 4 or first == 0
    np.testing.assert_array_equal(np.sort(seen), np.arange(1, 103))


@pytest.mark.parametrize(
    "tokens, window, said",
    [
        ([0], 2, "1 token.s.; a prediction takes 2"),
        ([0, 1], 0, "model.window=0: expected 1 or more"),
    ],
)
def test_bad_texts_are_refused(tokens, window, said):
    with pytest.raises(ValueError, match=said):
        Streams(np.array(tokens, np.int32), 5, window, "test")


@pytest.mark.parametrize("batch_size", [0, 104])
def test_streams_that_would_be_empty_are_refused(batch_size):
    with pytest.raises(ValueError, match=f"102 predictions cannot be cut into {batch_size} streams"):
        streams().examples_in_epoch(batch_size)
