"""The errors that a run ends with: each message is whole, and needs no traceback."""

import difflib


class InputError(ValueError):
    """What the user gave cannot be used: says what came, what was expected and what to do.

    The trainer prints it as one message and exits with code 1. Code that may run while TensorFlow
    traces a function raises ValueError itself: AutoGraph passes on Python's own types alone.
    """


class DivergedError(RuntimeError):
    """Training left the finite numbers; the message names the metric and the window of steps."""


class Preempted(Exception):
    """A run was asked to stop, and was saved; the same command goes on from there."""

    exit_code = 42


class WorkerLost(RuntimeError):
    """Another worker of the cluster is gone, or does not answer; all must be started again.

    The trainer exits with this code, for what supervises it: the run goes on from its newest checkpoint.
    """

    exit_code = 75


def nearest(name, known):
    """Words for an error about an unknown name: ' Did you mean ...?' or the list of known names."""
    close = difflib.get_close_matches(str(name), list(known), 1, 0.5)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known: {', '.join(sorted(known))}."


def missing_extra(package, extra):
    """The error for an optional dependency that is not installed."""
    return InputError(
        f"This needs {package}, which is not installed. Install it with: pip install 'tfbigbatch[{extra}]'"
    )
