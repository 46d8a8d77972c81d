# SPDX-License-Identifier: Apache-2.0
"""Drives a headless Chromium over its debugging pipe; nothing but Python.

Everything that the page asks of the network, prints as an error or throws is
kept, so that a test can say that there was none of it.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
    "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--mute-audio",
    "--remote-debugging-pipe",
]  # fmt: skip


def find():
    """The browser's path, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class PageError(Exception):
    pass


class Browser:
    def __init__(self, path, width=1440, height=900):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.errors, self.requests = [], []
        self.next_id = 0
        self.session = None
        self._start(path)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call(
            "Target.attachToTarget", targetId=target, flatten=True
        )["sessionId"]
        for room in ["Page", "Runtime", "Log", "Network"]:
            self.call(room + ".enable")
        self.resize(width, height)

    def _start(self, path):
        # The browser reads commands from its descriptor 3 and answers on 4.
        to_read, self.commands = os.pipe()
        answers, to_write = os.pipe()
        command = [path, *FLAGS, "--user-data-dir=" + self.profile.name]

        def place():
            a, b = os.dup(to_read), os.dup(to_write)
            while a < 5 or b < 5:
                a, b = os.dup(a), os.dup(b)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            command, preexec_fn=place, close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in [to_read, to_write]:
            os.close(end)
        self.answers = os.fdopen(answers, "rb")
        self.rest = b""

    def _read(self):
        while b"\0" not in self.rest:
            part = self.answers.read1(1 << 20)
            if not part:
                raise PageError("the browser went away")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def _note(self, message):
        what, given = message.get("method"), message.get("params", {})
        if what == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(given["exceptionDetails"])[:2000])
        elif what == "Runtime.consoleAPICalled" and given["type"] == "error":
            self.errors.append(json.dumps(given["args"])[:2000])
        elif what == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.errors.append(given["entry"]["text"])
        elif what == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])

    def call(self, method, **params):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def resize(self, width, height):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def prefer_dark(self, dark):
        value = "dark" if dark else "light"
        feature = {"name": "prefers-color-scheme", "value": value}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def open(self, path):
        """Opens a file and waits until the page says that it is ready."""
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while not self.js("typeof taut === 'object' && !!taut.ready"):
            pass
        self.js("taut.ready")

    def js(self, expression):
        """The value of an expression; of what it promises, if it promises."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True,
            returnByValue=True,
        )  # fmt: skip
        if "exceptionDetails" in answer:
            raise PageError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def mouse(self, what, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=what, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def key(self, key, text=None):
        given = {"key": key, **({"text": text} if text else {})}
        self.call("Input.dispatchKeyEvent", type="keyDown", **given)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (PageError, OSError):
            pass
        os.close(self.commands)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.answers.close()
        self.profile.cleanup()
