import numpy as np
import tensorflow as tf

from tfbigbatch.tpu import lint


def findings(function, *specs):
    return lint.findings(tf.function(function, autograph=False).get_concrete_function(*specs))


def test_a_clean_step_has_none():
    assert findings(lambda x: tf.matmul(x, x), tf.TensorSpec([2, 2])) == []


def test_each_problem_has_the_line_that_made_it():
    def step(x):
        chosen = tf.boolean_mask(x, x > 0.0)
        words = tf.strings.as_string(x)
        tf.print(words)
        wide = tf.cast(x, tf.float64) + tf.numpy_function(np.sum, [x], tf.float64)
        return tf.size(chosen), tf.unique(x), wide

    found = findings(step, tf.TensorSpec([4]))
    kinds = {(each["kind"], each["operation"]) for each in found}
    assert {
        (lint.DYNAMIC, "Where"),
        (lint.DYNAMIC, "Unique"),
        (lint.STRING, "AsString"),
        (lint.HOST, "PrintV2"),
        (lint.HOST, "PyFunc"),
        (lint.FLOAT64, "Cast"),
    } <= kinds
    lines = {each["operation"]: each["line"] for each in found}
    assert "test_lint.py" in lines["Where"] and "boolean_mask(x" in lines["Where"]
    assert lines["AsString"].endswith("words = tf.strings.as_string(x)")


def test_the_message_of_an_assertion_is_none():
    def step(x):
        tf.debugging.assert_positive(x, "not positive")
        tf.debugging.Assert(tf.reduce_all(x < 9.0), ["too large", x])
        return tf.case([(x[0] > 1.0, lambda: x), (x[0] <= 1.0, lambda: -x)], exclusive=True)

    assert findings(step, tf.TensorSpec([4])) == []


def test_what_calls_and_loops_hold_is_seen_once_for_a_line():
    @tf.function(autograph=False)
    def inner(x):
        return tf.cast(tf.unique(x)[0][:1], tf.float32)

    def step(x):
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + inner(x)[0]), (0, 0.0)), tf.where(x > 0.0)

    found = findings(step, tf.TensorSpec([4]))
    assert [(each["operation"], each["times"]) for each in found if each["operation"] == "Unique"] == [("Unique", 1)]
    assert [each["kind"] for each in found if each["operation"] == "Where"] == [lint.DYNAMIC]
