"""Locks a prepared-dataset directory and records the source and options it was built from."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import filelock

from tfbigbatch.data.records.manifest import MANIFEST
from tfbigbatch.errors import InputError, Preempted
from tfbigbatch.utils.files import atomic_write, open_regular

PROGRESS = ".progress"
_FINGERPRINT, _LOCK, _FAILED = "plan.json", "lock", "failed"
# Raised when the files written for the same source change: folders begun before then count as another source's.
_FORMAT = 1


# The folders that the commands of this process hold and have claimed.
_claimed: set[str] = set()


@contextlib.contextmanager
def lock(folder: str) -> Iterator[str]:
    """Creates the folder and its progress folder, and locks them for one command; gives the latter's path.

    A command that claimed the folder and fails marks it: a corrected one, of another fingerprint, may then claim it.

    Raises:
      ValueError: another command holds the lock, or the folder cannot be written.
    """
    work = os.path.join(folder, PROGRESS)
    held = filelock.FileLock(os.path.join(work, _LOCK))
    try:
        os.makedirs(work, exist_ok=True)
        held.acquire(blocking=False)
    except filelock.Timeout:
        raise InputError(f"Another command is preparing --output_dir={folder}. Wait for it, or stop it.") from None
    except OSError as error:
        raise InputError(f"--output_dir={folder} cannot be written: {error.strerror or error}.") from None
    try:
        yield work
    except Preempted:
        raise
    except Exception:
        if os.path.realpath(folder) in _claimed:
            # As far as that is possible: the disk may be full.
            with contextlib.suppress(OSError), open(os.path.join(work, _FAILED), "w", encoding="utf-8"):
                pass
        raise
    finally:
        _claimed.discard(os.path.realpath(folder))
        held.release()


def fingerprint(
    source: str, layout: str, options: dict[str, Any], contents: Any, rows: Iterable[tuple[Any, ...]]
) -> dict[str, Any]:
    """What a result depends on, with its digest; not where the source lies.

    Args:
      source: its path.
      layout: in words.
      options: those that the result depends on.
      contents: what else it depends on; JSON.
      rows: one for each file of the source: its name, its size and the like.

    Returns:
      Dictionary with 'digest', 'source', 'layout' and 'options'.
    """
    digest = hashlib.sha256(json.dumps([_FORMAT, layout, options, contents], sort_keys=True).encode())
    for row in rows:
        digest.update("\0".join(map(str, row)).encode(errors="surrogateescape") + b"\n")
    name = os.path.basename(os.path.abspath(source))
    return {"digest": digest.hexdigest(), "source": name, "layout": layout, "options": options}


def claim(folder: str, fingerprint: dict[str, Any], writes: Iterable[str], overwrite: bool) -> None:
    """Marks a locked folder as built from a fingerprint; files of the same fingerprint stay.

    What a command left that failed, or ended before it wrote a shard, is removed.

    Args:
      folder: the prepared folder.
      fingerprint: of `fingerprint`.
      writes: the paths that will be written.
      overwrite: whether to remove what was prepared from another fingerprint.

    Raises:
      ValueError: it holds what was prepared from another fingerprint, or other files with these names.
    """
    path = os.path.join(folder, PROGRESS, _FINGERPRINT)
    before = _read(path)
    if before is not None and before.get("digest") == fingerprint["digest"]:
        _unmark(folder)
        _claimed.add(os.path.realpath(folder))
        return
    if before is not None and not overwrite and not _is_abandoned(folder):
        raise InputError(
            f"--output_dir={folder} holds what was {_difference(before, fingerprint)}. "
            "Choose another folder, or pass --overwrite."
        )
    try:
        if before is not None:
            _remove(folder)
        # Also after that: a folder of TFRecords that were only indexed still holds them.
        strange = [path for path in writes if os.path.exists(path)]
        if strange:
            raise InputError(
                f"--output_dir={folder} holds files that this command did not make, such as {strange[0]}. Choose "
                "another folder."
            )
        _unmark(folder)
        atomic_write(path, lambda file: file.write((json.dumps(fingerprint, indent=1) + "\n").encode()))
    except OSError as error:
        raise InputError(f"--output_dir={folder} cannot be written: {error.strerror or error}.") from None
    _claimed.add(os.path.realpath(folder))


def is_of(folder: str, fingerprint: dict[str, Any]) -> bool:
    """Whether a folder was claimed for a fingerprint."""
    before = _read(os.path.join(folder, PROGRESS, _FINGERPRINT))
    return before is not None and before.get("digest") == fingerprint["digest"]


def _is_abandoned(folder: str) -> bool:
    """Whether nothing is lost with a claimed folder: it has no dataset, and no shards but those of a failed command."""
    if os.path.exists(os.path.join(folder, MANIFEST)):
        return False
    return os.path.exists(os.path.join(folder, PROGRESS, _FAILED)) or not _records(folder)


def _unmark(folder: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(folder, PROGRESS, _FAILED))


def _records(folder: str) -> list[str]:
    """The records of the shards that were written."""
    work = os.path.join(folder, PROGRESS)
    found = glob.glob(os.path.join(glob.escape(work), "*.json"))
    return [path for path in found if os.path.basename(path) != _FINGERPRINT]


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Words for how two fingerprints differ."""
    old, new = before.get("options", {}), now["options"]
    changed = [
        f"{name} {old.get(name)}, now {new.get(name)}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
    if changed:
        return f"prepared with other options ({'; '.join(changed)})"
    return f"prepared from another source ({before.get('source')}), or its files have changed since"


def _remove(folder: str) -> None:
    """Removes what a command made; the fingerprint goes last, so that a stop in between leaves a claimed folder."""
    path = os.path.join(folder, PROGRESS, _FINGERPRINT)
    records = _records(folder)
    made = [os.path.join(folder, os.path.basename(record).removesuffix(".json")) for record in records]
    indexes = glob.glob(os.path.join(glob.escape(folder), "*.index.npz"))
    for old in [os.path.join(folder, MANIFEST), *indexes, *made, *records, path]:
        with contextlib.suppress(FileNotFoundError):
            os.remove(old)


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open_regular(path, encoding="utf-8") as file:
            content = json.load(file)
        if not isinstance(content, dict) or not isinstance(content.get("options", {}), dict):
            raise ValueError("it holds something else")
        return content
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}). Remove the folder and prepare it again.") from None
