"""Facts about the graph that is being traced."""

from __future__ import annotations

import tensorflow as tf


def compiled_by_xla() -> bool:
    """True while a function with jit_compile=True, or a TPU's, is being traced."""
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    while graph is not None:
        context = graph._get_control_flow_context()
        while context is not None:
            if context.IsXLAContext():
                return True
            context = context.outer_context
        graph = getattr(graph, "outer_graph", None)
    return False
