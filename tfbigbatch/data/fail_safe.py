"""A function over a few elements, where one that it fails on costs no other."""

import tensorflow as tf


def mapped(function, elements, count, signature, report):
    """`function` of each element, and zeros where it fails.

    All are tried at once, and one by one only where that fails: the price of safety is paid for a group.

    Args:
      function: from one element's tensors to a tuple of tensors; it may raise any TensorFlow error.
      elements: tuple of tensors, [count, ...] each.
      count: int, elements.
      signature: tuple of tf.TensorSpec, of what the function returns.
      report: called where it fails on any, with bool [count]: whether it was fine on each.

    Returns:
      (results, fine): tuple of tensors, [count, ...] each, and bool [count].
    """

    def attempt(elements, count):
        """(results, True), or zeros and False where the function fails on any."""

        def all_of_them(*elements):
            results = tf.map_fn(lambda one: function(*one), elements, fn_output_signature=signature)
            return *(tf.ensure_shape(one, [count, *spec.shape]) for one, spec in zip(results, signature)), True

        # A data set in this function: nothing else in a graph goes on after an error.
        found = tf.data.Dataset.from_tensors(elements).map(all_of_them).ignore_errors()
        blank = *(tf.zeros([count, *spec.shape], spec.dtype) for spec in signature), False
        return found.concatenate(tf.data.Dataset.from_tensors(blank)).take(1).get_single_element()

    def one_by_one():
        def one(at):
            *results, fine = attempt(tuple(tensor[at : at + 1] for tensor in elements), 1)
            return *(result[0] for result in results), fine

        *results, fine = tf.map_fn(one, tf.range(count), fn_output_signature=(*signature, tf.TensorSpec([], tf.bool)))
        report(fine)
        return *results, fine

    *results, fine = attempt(elements, count)
    *results, fine = tf.cond(fine, lambda: (*results, tf.ones([count], tf.bool)), one_by_one)
    for result, spec in zip(results, signature):
        result.set_shape([count, *spec.shape])
    fine.set_shape([count])
    return tuple(results), fine
