#!/usr/bin/env python3
"""browser.py PAGE [STEP...] - open PAGE in headless Chromium and do STEPs, over its debugging pipe.

STEP is one of
  eval:EXPRESSION       its value, as JSON
  key:NAME              a key is pressed, alone or as Shift+NAME
  click:EXPRESSION      the mouse clicks into the middle of that element
  drag:EXPRESSION DX    the mouse goes down there, DX pixels to the right, and up
  wheel:EXPRESSION DY [Control|Shift]   the wheel is turned there
  axes                  what a screen reader is told: [role, name] of all that is not ignored, as JSON
  media:NAME=VALUE      prefers-color-scheme=dark, prefers-reduced-motion=reduce, forced-colors=active
  size:WIDTHxHEIGHT     of the window, which is 1200 by 1000 at first
  noscript              the page is opened again, and no script of it runs
  paint                 milliseconds from its opening to the first paint with anything on it
  shot:FILE, whole:FILE a screenshot of the window, or of all of the page
  network               the addresses that the page asked for, as JSON
Errors of the page's scripts are printed and end it with status 1.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile
import time
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


KEYS = {"Tab": 9, "Enter": 13, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
        "ArrowDown": 40}
MODIFIERS = {"Control": 2, "Shift": 8}


def open_page(browser):
    browser.loaded = False
    browser.call("Page.navigate", url=Path(sys.argv[1]).resolve().as_uri())
    while not browser.loaded:
        browser.message()


def press(browser, name):
    *held, key = name.split("+") if len(name) > 1 else [name]
    text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
    common = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS.get(key, 0),
              "modifiers": sum(MODIFIERS[one] for one in held)}
    browser.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
    browser.call("Input.dispatchKeyEvent", type="keyUp", **common)


def middle(browser, expression):
    return browser.evaluate("(() => { const e = %s; e.scrollIntoView({ block: 'center' }); const b = e.getBoundingClientRect();"
                            "return [b.left + b.width / 2, b.top + b.height / 2]; })()" % expression)


def mouse(browser, kind, x, y, **more):
    browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)


def drag(browser, expression, by):
    x, y = middle(browser, expression)
    mouse(browser, "mousePressed", x, y, button="left", buttons=1, clickCount=1)
    for part in range(1, 5):
        mouse(browser, "mouseMoved", x + by * part / 4, y, button="left", buttons=1)
    mouse(browser, "mouseReleased", x + by, y, button="left", clickCount=1)


def told(browser):
    browser.call("Accessibility.enable")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    return [[node["role"]["value"], node.get("name", {}).get("value", "")] for node in nodes if not node["ignored"]]


def shot(browser, path, whole):
    if whole:
        size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
        browser.call("Emulation.setDeviceMetricsOverride", width=int(size["width"]), height=min(8000, int(size["height"])),
                     deviceScaleFactor=1, mobile=False)
        time.sleep(1)  # it is drawn; where scripts are off, nothing could tell
    data = browser.call("Page.captureScreenshot", format="png")["data"]
    Path(path).write_bytes(base64.b64decode(data))


def step(browser, what, value):
    if what == "eval":
        print(json.dumps(browser.evaluate(value)))
    elif what == "key":
        press(browser, value)
    elif what == "click":
        x, y = middle(browser, value)
        mouse(browser, "mouseMoved", x, y)
        mouse(browser, "mousePressed", x, y, button="left", buttons=1, clickCount=1)
        mouse(browser, "mouseReleased", x, y, button="left", clickCount=1)
    elif what == "drag":
        expression, _, by = value.rpartition(" ")
        drag(browser, expression, int(by))
    elif what == "wheel":
        *expression, by, held = value.split(" ") if value.split(" ")[-1] in MODIFIERS else value.split(" ") + [""]
        x, y = middle(browser, " ".join(expression))
        mouse(browser, "mouseWheel", x, y, deltaX=0, deltaY=int(by), modifiers=MODIFIERS.get(held, 0))
    elif what == "axes":
        print(json.dumps(told(browser)))
    elif what == "media":
        name, _, is_now = value.partition("=")
        browser.call("Emulation.setEmulatedMedia", features=[{"name": name, "value": is_now}])
        browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    elif what == "size":
        width, height = map(int, value.split("x"))
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    elif what == "noscript":
        browser.call("Emulation.setScriptExecutionDisabled", value=True)
        open_page(browser)
    elif what == "paint":
        print(json.dumps(browser.evaluate("new Promise(done => new PerformanceObserver(list => done(list.getEntries()"
              ".find(e => e.name === 'first-contentful-paint').startTime)).observe({ type: 'paint', buffered: true }))")))
    elif what in ("shot", "whole"):
        shot(browser, value, what == "whole")
    elif what == "network":
        print(json.dumps(browser.requests))
    else:
        sys.exit("what is " + what)


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(profile)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network"):
                browser.call(domain + ".enable")
            open_page(browser)
            for one in sys.argv[2:]:
                what, _, value = one.partition(":")
                step(browser, what, value)
        finally:
            browser.process.kill()
            browser.process.wait()
    for error in browser.errors:
        print(error, file=sys.stderr)
    return 1 if browser.errors else 0


sys.exit(main())
