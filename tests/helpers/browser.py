"""A headless Chromium for tests, spoken to in the DevTools protocol over a pair of pipes: needs no further package."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time

# The browser reads its commands from descriptor 3 and answers on 4. First out of the way: they may be 3 and 4 already.
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""

# All elements of a page, those in shadow trees too, that a selector fits.
_DEEP = """
(() => {
  const found = [];
  const walk = (root) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.matches(SELECTOR)) found.push(element);
      if (element.shadowRoot) walk(element.shadowRoot);
    }
  };
  walk(document);
  return found;
})()
"""


def chromium():
    """The path of the system's Chromium or Chrome; None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


class Browser:
    """One window of a Chromium of its own, a context manager.

    Args:
      folder: for its profile.
      size: (width, height) of the window in pixels.
      seconds: how long any wait lasts at most.
    """

    def __init__(self, folder, size=(1280, 1000), seconds=120):
        self._seconds = seconds
        self._number, self._session, self._rest = 0, None, b""
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-S", "-c", _START, str(theirs_in), str(theirs_out)),
                *(chromium(), "--headless", "--remote-debugging-pipe", f"--user-data-dir={folder}"),
                # Root, as which containers run tests, has no sandbox; it sees our own pages alone.
                *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars"),
                "about:blank",
            ],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            target = self._call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self._call("Page.enable")
            view = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
            self._call("Emulation.setDeviceMetricsOverride", **view)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for end in (self._to, self._from):
            os.close(end)

    def open(self, address):
        """Goes to a page, all of it afresh, also where only what follows its # is another."""
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=address)

    def evaluate(self, expression):
        """The value of a JavaScript expression in the page."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def each(self, selector, expression):
        """List of what a JavaScript function body gives of each element, as `element`, that a CSS selector fits."""
        found = _DEEP.replace("SELECTOR", json.dumps(selector))
        return self.evaluate(f"{found}.map((element) => ({expression}))")

    def wait_for(self, condition, what):
        """Waits until `condition()` is true.

        Raises:
          TimeoutError: it does not become so.
        """
        end = time.monotonic() + self._seconds
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"the page did not show {what} within {self._seconds} seconds")
            time.sleep(0.5)

    def screenshot(self, box=None):
        """The PNG, as bytes, of the window or of a box (x, y, width, height) of the page."""
        clip = {} if box is None else {"clip": dict(zip(("x", "y", "width", "height"), box), scale=1)}
        return base64.b64decode(self._call("Page.captureScreenshot", format="png", **clip)["data"])

    def _call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self._seconds
        while True:
            answer = self._next(end)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self, end):
        """The next message, an answer or an event."""
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"the browser did not answer within {self._seconds} seconds")
            part = os.read(self._from, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)
