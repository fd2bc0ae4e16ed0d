"""A function over a few elements, or of a batch of records, where one that it fails on costs no other."""

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


def batched(function, elements, report):
    """`function` of a batch of records, where those that it fails on are taken for none.

    As in `mapped`, all are tried at once, and one by one only where that fails.

    Args:
      function: from the tensors of `elements`, or of one of them with a first dimension of 1, to a nest of tensors of
        the same first dimension; an empty string stands for no record.
      elements: tuple of tensors, [n, ...] each, n known; the first is string [n], the records.
      report: called where it fails on any, with bool [n]: whether it was fine on each.

    Returns:
      The nest of tensors.
    """
    count = elements[0].shape[0]

    def attempt(elements, count):
        """(results, True), or zeros and False where the function fails."""

        def zeros(spec):
            return tf.zeros([count, *spec.shape[1:]], spec.dtype)

        tried = tf.data.Dataset.from_tensors(elements).map(lambda *elements: (function(*elements), True))
        blank = tf.nest.map_structure(zeros, tried.element_spec[0]), False
        found = tried.ignore_errors().concatenate(tf.data.Dataset.from_tensors(blank))
        results, fine = found.take(1).get_single_element()
        return tf.nest.map_structure(lambda one: tf.ensure_shape(one, [count, *one.shape[1:]]), results), fine

    def fine_alone(at):
        alone = (tf.ensure_shape(each[at : at + 1], [1, *each.shape[1:]]) for each in elements)
        return attempt(tuple(alone), 1)[1]

    def without_the_bad():
        fine = tf.map_fn(fine_alone, tf.range(count), fn_output_signature=tf.bool)
        results, whole = attempt((tf.where(fine, elements[0], ""), *elements[1:]), count)
        report(fine & whole)
        return results

    results, fine = attempt(elements, count)
    return tf.cond(fine, lambda: results, without_the_bad)
