"""What config.json and status.json of a run directory have to hold, whoever wrote them."""

from tfbigbatch.errors import InputError

_STATUS = {"status": str, "step": int, "total_steps": int, "seconds": (int, float), "metrics": dict, "reason": str}


def checked_config(content, path):
    """The content of a config.json.

    Args:
      content: as JSON gave it.
      path: of the file, for the error.

    Raises:
      ValueError: it is not a dictionary with the config of a task in it.
    """
    config = content.get("config") if isinstance(content, dict) else None
    model = config.get("model") if isinstance(config, dict) else None
    if (
        not isinstance(model, dict)
        or not isinstance(config.get("task"), str)
        or not isinstance(model.get("name"), str | None)
    ):
        raise InputError(
            f"{path} is not of a run directory: it has no config with a task and a model. Name the folders that the "
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
        wrong = [name for name, kind in _STATUS.items() if name in content and not _is(content[name], kind)]
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


def _is(value, kind):
    """Whether a value is of a type; true and false are no numbers, and a number is a finite one."""
    if isinstance(value, bool) or not isinstance(value, kind):
        return False
    return not isinstance(value, (int, float)) or -1e300 < value < 1e300
