"""A web server on loopback for as long as a test needs it."""

import contextlib
import http.server
import threading


@contextlib.contextmanager
def server(**answers):
    """Serves on a free port; gives "http://127.0.0.1:PORT".

    Args:
      **answers: by the name of a request's method, as do_GET: what answers it, called with the request's handler.
    """

    def log_message(self, *arguments):
        pass

    handler = type("Handler", (http.server.BaseHTTPRequestHandler,), {**answers, "log_message": log_message})
    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{serving.server_port}"
    finally:
        serving.shutdown()
        serving.server_close()
        thread.join()


def answer(handler, status, content):
    """Answers a request with a status and bytes."""
    handler.send_response(status)
    handler.end_headers()
    handler.wfile.write(content)
