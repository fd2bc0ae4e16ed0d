"""A metadata server on loopback that answers as told. Imports nothing heavy."""

import contextlib
import http.server
import threading
import time


@contextlib.contextmanager
def serving(answers, delay=0.0):
    """Gives the server's address, and the list of the paths that it was asked for.

    Args:
      answers: dictionary from paths such as 'instance/preempted' to texts; it may change at any time. Another path is
        answered by 404.
      delay: seconds before an answer.
    """
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.removeprefix("/computeMetadata/v1/")
            asked.append(path)
            time.sleep(delay)
            known = self.headers.get("Metadata-Flavor") == "Google" and path in answers
            self.send_response(200 if known else 404)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(answers[path].encode() if known else b"")

        def log_message(self, *unused):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
