"""A metadata server on loopback that answers as told. Imports nothing heavy."""

import contextlib
import time

from tests.helpers import loopback


@contextlib.contextmanager
def serving(answers, delay=0.0):
    """Gives the server's address, and the list of the paths that it was asked for.

    Args:
      answers: dictionary from paths such as 'instance/preempted' to texts; it may change at any time. Another path is
        answered by 404.
      delay: seconds before an answer.
    """
    asked = []

    def do_GET(handler):
        path = handler.path.removeprefix("/computeMetadata/v1/")
        asked.append(path)
        time.sleep(delay)
        known = handler.headers.get("Metadata-Flavor") == "Google" and path in answers
        with contextlib.suppress(OSError):
            loopback.answer(handler, 200 if known else 404, answers[path].encode() if known else b"")

    with loopback.server(do_GET=do_GET) as address:
        yield address.removeprefix("http://"), asked
