#!/usr/bin/env python3
"""browser.py PAGE [STEP...] - open PAGE in headless Chromium and do STEPs, over its debugging pipe.

STEP is `eval:EXPRESSION`, whose value is printed as JSON; `key:NAME`, a key that is pressed; `shot:FILE`,
a screenshot; or `network`, the addresses that the page asked for, as JSON. Errors of the page's scripts
are printed and end it with status 1. The window is 1200 by 1000.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


class Browser:
    def __init__(self, profile):
        to_read, self.to_write = os.pipe()
        self.from_read, from_write = os.pipe()

        def pipes():
            # Its ends are 3 and 4 for it, whatever they are here.
            a, b = os.dup(to_read), os.dup(from_write)
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.process = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--user-data-dir=" + profile, "--window-size=1200,1000", "--disable-dev-shm-usage"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=pipes)
        os.close(to_read)
        os.close(from_write)
        self.number, self.buffer, self.session = 0, b"", None
        self.requests, self.errors, self.loaded = [], [], False

    def message(self):
        while b"\0" not in self.buffer:
            data = os.read(self.from_read, 1 << 16)
            if not data:
                sys.exit("chromium ended")
            self.buffer += data
        raw, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(raw)
        method = message.get("method")
        if method == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(message["params"]["exceptionDetails"].get("exception", {}).get("description", "?"))
        elif method == "Page.loadEventFired":
            self.loaded = True
        return message

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit("%s: %s" % (method, answer["error"]))
                return answer["result"]

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit("%s: %s" % (expression, result["exceptionDetails"]))
        return result["result"].get("value")


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network"):
                browser.call(domain + ".enable")
            browser.loaded = False
            browser.call("Page.navigate", url=Path(sys.argv[1]).resolve().as_uri())
            while not browser.loaded:
                browser.message()
            for step in sys.argv[2:]:
                what, _, value = step.partition(":")
                if what == "eval":
                    print(json.dumps(browser.evaluate(value)))
                elif what == "key":
                    for kind in ("keyDown", "keyUp"):
                        browser.call("Input.dispatchKeyEvent", type=kind, key=value,
                                     **({"text": value} if len(value) == 1 and kind == "keyDown" else {}))
                elif what == "shot":
                    shot = browser.call("Page.captureScreenshot", format="png")
                    Path(value).write_bytes(base64.b64decode(shot["data"]))
                elif what == "network":
                    print(json.dumps(browser.requests))
                else:
                    sys.exit("what is " + step)
        finally:
            browser.process.kill()
            browser.process.wait()
    for error in browser.errors:
        print(error, file=sys.stderr)
    return 1 if browser.errors else 0


sys.exit(main())
