"""What config.json and status.json of a run directory have to hold, whoever wrote them."""

from tfbigbatch.errors import InputError

_CONFIG = {"task": str, "model": dict, "seed": int, "batch_size": int}
_STATUS = {"status": str, "step": int, "total_steps": int, "seconds": (int, float), "metrics": dict, "reason": str}


def checked_config(content, path, needs=()):
    """The content of a config.json.

    Args:
      content: as JSON gave it.
      path: of the file, for the error.
      needs: the fields that the config must have.

    Raises:
      ValueError: it is not a dictionary with a config in it, or a field that a run is known by is of another type.
    """
    config = content.get("config") if isinstance(content, dict) else None
    wrong = ["config"] if not isinstance(config, dict) else _wrong(config, _CONFIG)
    wrong += [name for name in needs if not wrong and name not in config]
    if not wrong and not isinstance(config.get("model", {}).get("name"), str | None):
        wrong = ["model.name"]
    if wrong:
        raise InputError(
            f"{path} is not of a run directory: its {', '.join(wrong)} cannot be used. Name the folders that the "
            "trainer made, or put the file back."
        )
    return content


def checked_status(content, path):
    """The content of a status.json: all or none of what tells how far the run got, each of its type.

    Args:
      content: as JSON gave it; None where there is no file.
      path: of the file, for the error.

    Raises:
      ValueError: a field is of another type, or missing.
    """
    if content is None:
        return {}
    if isinstance(content, dict) and {"status", "step"} <= content.keys():
        wrong = _wrong(content, _STATUS)
        metrics = {} if "metrics" in wrong else content.get("metrics", {})
        wrong += [name for name in ("step", "total_steps", "seconds") if name not in wrong and content.get(name, 0) < 0]
        wrong += [f"metrics.{name}" for name, value in metrics.items() if not _is(value, (int, float))]
    else:
        wrong = ["status", "step"]
    if wrong:
        raise InputError(
            f"{path} is not the status.json of a run: {', '.join(wrong)[:200]} cannot be used. Remove the file: the "
            "run goes on from its newest checkpoint, and counts its seconds anew."
        )
    return content


def _wrong(content, kinds):
    """The names of the fields that are there and of another type."""
    return [name for name, kind in kinds.items() if name in content and not _is(content[name], kind)]


def _is(value, kind):
    """Whether a value is of a type; true and false are no numbers, and a number is a finite one."""
    if isinstance(value, bool) or not isinstance(value, kind):
        return False
    return not isinstance(value, (int, float)) or -1e300 < value < 1e300
