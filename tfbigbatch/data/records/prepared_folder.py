"""Whose a prepared folder is: one source and one set of options, and one command at a time."""

import contextlib
import fcntl
import glob
import hashlib
import json
import os

from tfbigbatch.data.records.manifest import MANIFEST
from tfbigbatch.errors import InputError
from tfbigbatch.utils.files import atomic_write

PROGRESS = ".progress"
_PLAN, _LOCK = "plan.json", "lock"
# A change of what is written for the same source makes folders that were begun before another plan's.
_FORMAT = 1


@contextlib.contextmanager
def alone(folder):
    """Makes the folder and the one for its progress; gives the latter's path while no other command is at work there.

    Raises:
      ValueError: another one is, or the folder cannot be written.
    """
    work = os.path.join(folder, PROGRESS)
    try:
        os.makedirs(work, exist_ok=True)
        lock = open(os.path.join(work, _LOCK), "w")
    except OSError as error:
        raise InputError(f"--output_dir={folder} cannot be written: {error.strerror}.") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"Another command is preparing --output_dir={folder}. Wait for it, or stop it.") from None
        yield work


def plan(source, layout, options, contents, rows):
    """What a result depends on, as a dictionary with its digest; not where the source lies.

    Args:
      source: its path.
      layout: in words.
      options: dictionary of those that the result depends on.
      contents: what else it depends on; JSON.
      rows: iterable of tuples, one for each file of the source: its name, its size and the like.
    """
    digest = hashlib.sha256(json.dumps([_FORMAT, layout, options, contents], sort_keys=True).encode())
    for row in rows:
        digest.update("\0".join(map(str, row)).encode(errors="surrogateescape") + b"\n")
    name = os.path.basename(os.path.abspath(source))
    return {"digest": digest.hexdigest(), "source": name, "layout": layout, "options": options}


def take(folder, plan, writes, overwrite):
    """Makes a folder that of a plan; what it holds of the same plan stays.

    Args:
      folder: it.
      plan: dictionary with 'digest', that of all that the result depends on, and the options in 'options'.
      writes: the paths that are going to be written.
      overwrite: whether to remove what was prepared by another plan.

    Raises:
      ValueError: it holds what another plan prepared, or files of these names that no plan did.
    """
    path = os.path.join(folder, PROGRESS, _PLAN)
    before = _read(path)
    if before is not None and before.get("digest") == plan["digest"]:
        return
    if before is not None and not overwrite:
        raise InputError(
            f"--output_dir={folder} holds what was {_difference(before, plan)}. "
            "Choose another folder, or pass --overwrite."
        )
    try:
        if before is not None:
            _remove(folder)
        # Also after that: TFRecords of others may lie here, which a plan has but indexed.
        strange = [path for path in writes if os.path.exists(path)]
        if strange:
            raise InputError(
                f"--output_dir={folder} holds files that this command did not make, such as {strange[0]}. Choose "
                "another folder."
            )
        atomic_write(path, lambda file: file.write((json.dumps(plan, indent=1) + "\n").encode()))
    except OSError as error:
        raise InputError(f"--output_dir={folder} cannot be written: {error.strerror or error}.") from None


def _difference(before, plan):
    """Words for how a plan differs from the one before it."""
    old, new = before.get("options", {}), plan["options"]
    changed = [
        f"{name} {old.get(name)}, now {new.get(name)}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]
    if changed:
        return f"prepared with other options ({'; '.join(changed)})"
    return f"prepared from another source ({before.get('source')}), or its files have changed since"


def _remove(folder):
    """Removes what a plan made; its file goes last, so that a stop in between leaves a folder of that plan."""
    work = os.path.join(folder, PROGRESS)
    plan = os.path.join(work, _PLAN)
    records = [path for path in glob.glob(os.path.join(glob.escape(work), "*.json")) if path != plan]
    made = [os.path.join(folder, os.path.basename(path).removesuffix(".json")) for path in records]
    indexes = glob.glob(os.path.join(glob.escape(folder), "*.index.npz"))
    for path in [os.path.join(folder, MANIFEST), *indexes, *made, *records, plan]:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        if not isinstance(content, dict) or not isinstance(content.get("options", {}), dict):
            raise ValueError("it is no plan")
        return content
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}). Remove the folder and prepare it again.") from None
