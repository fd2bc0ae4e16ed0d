"""Names of a report's rows, from the folders of their runs."""

from __future__ import annotations

import collections
import os
import re
from collections.abc import Sequence

# The end of a folder's name that tells a seed: 'seed-0', 'legw_seed3'.
_SEED = re.compile(r"[-_./ ]*seed[-_ =]?\d+$")
_SEPARATORS = "-_./ "


def row_names(directories: Sequence[Sequence[str]], batch_sizes: Sequence[int]) -> list[str]:
    """A name for each row: the path of its runs below the folder that all have in common, without the seed.

    Where the rows have several batch sizes, each is left out of the names that hold it: 'legw_512' and 'legw_1024'
    are one line of a plot, 'legw'.

    Args:
      directories: of each row's runs, one for each seed.
      batch_sizes: of each row; has a column of its own.
    """
    paths = [[os.path.abspath(path) for path in runs] for runs in directories]
    root = os.path.commonpath([os.path.dirname(path) for runs in paths for path in runs])
    relative = [[os.path.relpath(path, root) for path in runs] for runs in paths]
    names = [_common(runs) for runs in relative]
    if len(names) == 1 and not names[0]:
        names = [os.path.basename(root)]
    # Two rows that differ in more than their seeds may lie in folders named by seeds.
    counts = collections.Counter(names)
    names = [name if name and counts[name] == 1 else runs[0] for name, runs in zip(names, relative)]
    if len(set(batch_sizes)) > 1:
        shorter = [_without_batch(name, batch_size) for name, batch_size in zip(names, batch_sizes)]
        if len(set(zip(shorter, batch_sizes))) == len(names):
            names = shorter
    return names


def _common(paths: Sequence[str]) -> str:
    """What the paths of one row have in common; may be ''."""
    if len(paths) == 1:
        return _SEED.sub("", paths[0])
    without = {_SEED.sub("", path) for path in paths}
    if len(without) == 1:
        return without.pop()
    # Up to the seeds, which begin somewhere in the digits: '0' and '1', or '10' and '11'.
    return os.path.commonprefix(list(paths)).rstrip(_SEPARATORS + "0123456789")


def _without_batch(name: str, batch_size: int) -> str:
    sizes = {str(batch_size), f"{batch_size:,}", *({f"{batch_size // 1024}k"} if batch_size % 1024 == 0 else ())}
    pattern = rf"(^|[-_./ ])(?:batch|bs|b)?[-_ =]?(?:{'|'.join(map(re.escape, sizes))})(?=$|[-_./ ])"
    return re.sub(pattern, "", name).strip(_SEPARATORS) or name
