"""Calls of a user's functions, whose errors name file and line, and checks for classes in place of objects."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

from tfbigbatch.errors import InputError


def call(function: Callable[..., Any], owner: str, **arguments: Any) -> Any:
    """The result of a user's function.

    Args:
      function: of the user.
      owner: whose it is, for errors, as 'task housing'.
      **arguments: of the function.

    Raises:
      ValueError: it raised anything but a ValueError of this package.
    """
    try:
        return function(**arguments)
    except InputError:
        raise
    except Exception as error:
        name = getattr(function, "__name__", type(function).__name__)
        code = getattr(function, "__code__", None)
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if code is not None and frame.filename == code.co_filename
        ]
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        message = (str(error).strip() or "no message").splitlines()[0]
        raise InputError(f"{owner}: {name}() raised {type(error).__name__}: {message}{where}") from error


def check_objects(what: str, given: Any) -> None:
    """Raises ValueError for a class, or one in a list or dictionary: what is meant is an object of it."""
    for each in given.values() if isinstance(given, dict) else given if isinstance(given, (list, tuple)) else [given]:
        if inspect.isclass(each):
            raise InputError(f"{what}: {each.__name__} is a class; expected an object of it, {each.__name__}().")
        if isinstance(each, (dict, list, tuple)):
            check_objects(what, each)
