"""What every fuzzed case is held to: it ends in time, with a result or with one clear error. Imports nothing heavy."""

import collections
import random
import signal

import pytest

from tfbigbatch.errors import InputError

# Seconds of the processor for a case, many times what the longest takes; and of the clock, for one that only waits.
WORK, WAIT = 20.0, 300.0


class Hangs(BaseException):
    """A case took longer than it may; no `except Exception` holds it up."""


def few_and_many(few, many):
    """The parameter `seeds` of a test in tests/fuzz: a few by default, and the others with the slow tests.

    `make fuzz` gives other numbers of them: see tests/fuzz/conftest.py.
    """
    return pytest.mark.fuzzed(few, many)


def judge(seeds, case):
    """Runs case(choices) for each seed.

    Args:
      seeds: iterable of int.
      case: function of a random.Random; it may return, and may raise InputError with a message.

    Returns:
      collections.Counter of 'fine' and 'refused'.

    Raises:
      AssertionError: a case raised anything else, said nothing or hung; the message has its seed.
    """
    outcomes = collections.Counter()
    for seed in seeds:
        outcomes[_outcome(seed, case)] += 1
    return outcomes


def _outcome(seed, case):
    def hang(number, frame):
        raise Hangs(f"seed {seed}: no end after {WORK:g} s of work, or {WAIT:g} s of waiting")

    before = {each: signal.signal(each, hang) for each in (signal.SIGALRM, signal.SIGPROF)}
    signal.setitimer(signal.ITIMER_REAL, WAIT)
    signal.setitimer(signal.ITIMER_PROF, WORK)
    try:
        case(random.Random(seed))
    except InputError as error:
        assert len(str(error)) > 10, f"seed {seed}: an error that says nothing, {error!r}"
        return "refused"
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    except Exception as error:
        raise AssertionError(f"seed {seed}: a raw {type(error).__name__}: {str(error)[:300]}") from error
    finally:
        for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        for each, handler in before.items():
            signal.signal(each, handler)
    return "fine"
