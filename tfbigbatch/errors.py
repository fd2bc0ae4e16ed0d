"""Exceptions that end a run. Their messages are complete: commands print them without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Invalid user input; the message has the value, what was expected and what to do.

    Commands exit with code 1. Code that may run while TensorFlow traces a function raises ValueError instead:
    AutoGraph re-raises only Python's own exception types unchanged.
    """


class DivergedError(RuntimeError):
    """A metric became NaN or infinite; the message names it and the window of steps."""


class Preempted(Exception):
    """A run was stopped on request, after saving; the same command resumes it."""

    exit_code = 42


class WorkerLost(RuntimeError):
    """Another worker of the cluster died or does not answer.

    The trainer exits with this code. Its supervisor restarts all workers, which resume from the newest checkpoint.
    """

    exit_code = 75


_SURE = 0.6


def nearest(name: object, known: Iterable[str]) -> str:
    """The hint for an unknown name in an error message: 'Did you mean ...?', the list of known names, or both."""
    known = sorted(known)
    close = difflib.get_close_matches(str(name), known, 1, 0.5) if name is not None else []
    hints = [f"Did you mean {close[0]!r}?"] if close else []
    # 'lion' is half of 'muon', and may be another.
    if not close or difflib.SequenceMatcher(None, str(name), close[0]).ratio() < _SURE:
        hints.append(f"Known: {', '.join(known)}.")
    return " ".join(hints)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where it has none, to quote in another message."""
    # TensorFlow's errors have the message without the graph's nodes in an attribute of this name.
    message = str(getattr(error, "message", "") or error).strip()
    return (message or type(error).__name__).splitlines()[0]


def missing_extra(package: str, extra: str, note: str = "") -> InputError:
    """The error for an optional dependency that is not installed; `note` is a sentence more."""
    message = f"This needs {package}, which is not installed. Install it with: pip install 'tfbigbatch[{extra}]'"
    return InputError(f"{message}. {note}" if note else message)
