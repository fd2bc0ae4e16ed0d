import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.records import skip_bad

SIGNATURE = tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.int32)


def halved(numbers, texts):
    """Fails on odd numbers, and on texts that are none."""
    even = tf.debugging.Assert(tf.reduce_all(numbers % 2 == 0), [numbers])
    with tf.control_dependencies([even]):
        return tf.repeat(tf.strings.to_number(texts)[:, None], 2, axis=1), numbers // 2


@pytest.mark.parametrize(
    "numbers, texts, fine",
    [
        ([2, 4, 6], ["1", "2", "3"], [True, True, True]),
        ([2, 5, 6], ["1", "2", "3"], [True, False, True]),
        ([3, 4, 6], ["1", "2", "none"], [False, True, False]),
        ([1, 1, 1], ["1", "2", "3"], [False, False, False]),
    ],
)
def test_an_element_that_fails_costs_no_other(numbers, texts, fine):
    reported = []

    def report(fine):
        tf.numpy_function(lambda fine: reported.append(fine.tolist()), [fine], [])

    def group(*elements):
        return skip_bad.map_skipping_errors(halved, elements, 3, SIGNATURE, report)

    data = tf.data.Dataset.from_tensors((np.array(numbers, np.int32), np.array(texts))).map(group)
    assert data.element_spec[0][0].shape == (3, 2)
    (doubles, halves), was_fine = data.get_single_element()
    assert was_fine.numpy().tolist() == fine
    for index, each in enumerate(fine):
        assert halves[index] == (numbers[index] // 2 if each else 0)
        assert doubles[index].numpy().tolist() == ([float(texts[index])] * 2 if each else [0.0, 0.0])
    assert reported == ([] if all(fine) else [fine])


@pytest.mark.parametrize("texts, fine", [(["1", "2", "3"], None), (["1", "x", ""], [True, False, True])])
def test_a_record_that_fails_costs_no_other_of_its_batch(texts, fine):
    reported = []

    def numbers(texts, factors):
        """Fails on texts that are no number; an empty one is 0."""
        found = tf.strings.to_number(tf.where(tf.strings.length(texts) > 0, texts, "0"))
        return {"found": found * factors}, tf.strings.length(texts)

    def report(fine):
        tf.numpy_function(lambda fine: reported.append(fine.tolist()), [fine], [])

    elements = np.array(texts), np.array([10.0, 20.0, 30.0], np.float32)
    data = tf.data.Dataset.from_tensors(elements).map(
        lambda *each: skip_bad.map_batch_skipping_errors(numbers, each, report)
    )
    assert data.element_spec[0]["found"].shape == (3,)
    found, sizes = data.get_single_element()
    expected = [10.0, 40.0, 90.0] if fine is None else [10.0, 0.0, 0.0]
    assert found["found"].numpy().tolist() == expected and sizes.numpy().tolist()[0] == 1
    assert reported == ([] if fine is None else [fine])
