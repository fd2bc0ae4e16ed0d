"""What an old name resolves to and which warnings it gives: `old_name_resolved.py OLD NEW`, in a fresh process."""

import importlib
import sys
import warnings

old, new = sys.argv[1:]
parent, _, name = old.rpartition(".")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    of_package = getattr(importlib.import_module(parent), name, None)
    try:
        resolved = importlib.import_module(old)
    except ModuleNotFoundError:
        resolved = of_package
    again = getattr(importlib.import_module(parent), name, resolved)
try:
    expected = importlib.import_module(new)
except ModuleNotFoundError:
    home, _, name = new.rpartition(".")
    expected = getattr(importlib.import_module(home), name)
messages = [str(each.message) for each in caught if "the old name will go" in str(each.message)]
assert resolved is expected and again is expected and of_package in (None, expected), (resolved, of_package, expected)
of_parent = [each for each in messages if each.startswith(f"{parent} is now ")]
assert len(of_parent) < 2, messages
assert [each for each in messages if each not in of_parent] == [f"{old} is now {new}; the old name will go."], messages
