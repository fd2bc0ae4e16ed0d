"""Reading JSON files that users name."""

import json

from tfbigbatch.errors import InputError


def read(path):
    """The content of a JSON file.

    Raises:
      ValueError: the file cannot be read or is not JSON.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    # The last one of brackets that are nested thousands deep.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON in UTF-8 ({error}).") from None


def read_dictionary(path):
    """The same of a file that holds a dictionary.

    Raises:
      ValueError: as `read`, or it holds something else.
    """
    content = read(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}; expected a dictionary.")
    return content
