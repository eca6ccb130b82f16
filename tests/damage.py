#!/usr/bin/env python3
"""damage.py CUWARD TRACE [--every N] - cut and change TRACE at its bytes; what it holds is still told.

Each file is cut off at every Nth byte, and each Nth byte is replaced, one damage at a time. The
command must end within 20 s, with status 0 or 1, never by a signal; a shorter stream must be said.
"""
import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def told(options, trace, why):
    done = subprocess.run([options.cuward, "timeline", "--json", str(trace)], capture_output=True,
                          timeout=20)
    if done.returncode not in (0, 1):
        sys.exit("%s: status %d, %s" % (why, done.returncode, done.stderr[-300:]))
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cuward")
    parser.add_argument("trace")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    damages = silent = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "trace"
        shutil.copytree(options.trace, copy)
        for file in sorted(copy.iterdir()):
            whole = file.read_bytes()
            for at in range(0, len(whole), options.every):
                file.write_bytes(whole[:at])
                done = told(options, copy, "%s cut at %d" % (file.name, at))
                # Without any byte a stream is empty, and at the end of a packet nothing is missing.
                silent += done.returncode == 0
                for value in (0, 0xff, whole[at] ^ 1):
                    file.write_bytes(whole[:at] + bytes([value]) + whole[at + 1:])
                    told(options, copy, "%s byte %d is %d" % (file.name, at, value))
                damages += 4
            file.write_bytes(whole)
    print("%d damages, %d cuts that do not show" % (damages, silent))


main()
