#!/usr/bin/env python3
"""terminal.py OUT COMMAND... - run COMMAND with a terminal for its stderr, its stdout going to the file OUT.

What came on the terminal is printed as JSON, and how it ended: {"status": 0, "text": "..."}.
"""
import json
import os
import pty
import subprocess
import sys

ours, theirs = pty.openpty()
with open(sys.argv[1], "wb") as out:
    process = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=out, stderr=theirs)
os.close(theirs)
text = b""
while True:
    try:
        part = os.read(ours, 65536)
    except OSError:  # the last one has closed it
        break
    if not part:
        break
    text += part
print(json.dumps({"status": process.wait(), "text": text.decode(errors="replace")}))
