import numpy as np
import pytest
import tensorflow as tf

from tfbigbatch.data.records import skip_bad


@pytest.mark.parametrize(
    "texts, numbers, bad",
    [
        (["1", "2", "3"], [4, 7, 9], []),
        (["1", "x", "3"], [4, 7, 9], [7]),
        (["x", "y", "z"], [4, 7, 9], [4, 7, 9]),
        # Unreadable; and none at all, which is not reported.
        (["", "2", ""], [4, 7, -1], [4]),
        (["1", "x", ""], [4, 7, 9], [7, 9]),
    ],
)
def test_a_record_that_fails_costs_no_other_of_its_batch(texts, numbers, bad):
    reported = []

    def halved(texts, _, factors):
        """Fails on texts that are no number; an empty one is 0."""
        found = tf.strings.to_number(tf.where(tf.strings.length(texts) > 0, texts, "0"))
        return {"found": found * factors}, tf.strings.length(texts)

    def report(numbers):
        tf.numpy_function(lambda numbers: reported.extend(numbers.tolist()), [numbers], [])

    elements = np.array(texts), np.array(numbers), np.array([10.0, 20.0, 30.0], np.float32)
    data = tf.data.Dataset.from_tensors(elements).map(lambda *elements: skip_bad.map_records(halved, elements, report))
    assert data.element_spec[0]["found"].shape == (3,)
    found, sizes = data.get_single_element()
    expected = [float(text) * 10 * (at + 1) if text.isdigit() else 0.0 for at, text in enumerate(texts)]
    assert found["found"].numpy().tolist() == expected
    assert sizes.numpy().tolist() == [int(text.isdigit()) for text in texts]
    assert sorted(reported) == bad
