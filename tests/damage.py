#!/usr/bin/env python3
"""damage.py CUWARD TRACE [--every N] - cut and change TRACE at its bytes; what it holds is still told.

Each file is cut off at every Nth byte, and each Nth byte is replaced, one damage at a time. The command must
end within 20 s, with status 0 or 1, never by a signal. Of a cut stream it must tell all events of the packets
before the cut and no more than those of the next one, and unless the cut is at the border of two packets, where
nothing is missing, end with 1 and say the file and the byte where it stopped: within the packet that was cut.
Where a change makes it end with 1, it must say so too; where it does not, every event is there.
"""
import argparse
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path


def fail(why, done):
    sys.exit("%s: status %d\n%s\n%s" % (why, done.returncode, done.stderr.decode()[-500:],
                                        done.stdout.decode()[:300]))


def told(options, trace, why):
    """Status, how many events (None: nothing was told of any), and the lines about damage."""
    done = subprocess.run([options.cuward, "timeline", "--json", str(trace)], capture_output=True, timeout=20)
    if done.returncode not in (0, 1):
        fail(why, done)
    facts = json.loads(done.stdout)["trace"] if done.stdout else None
    if (facts is None or facts["damaged"]) and (done.returncode != 1 or not done.stderr):
        fail(why + ": damaged, and not said", done)
    return done, facts


def where(done, file):
    """The bytes of this file at which something is said to have gone wrong."""
    lines = [line for line in done.stderr.decode().splitlines() if "/%s: " % file.name in line]
    return [int(at) for line in lines for at in re.findall(r"at byte (\d+)", line)] + \
        [0 for line in lines if line.endswith("there is no packet in it")]


def packets(data):
    """Where they begin, and the end; as make_ctf.py writes them, the size at byte 48 of each."""
    at, borders = 0, []
    while at < len(data):
        borders.append(at)
        at += struct.unpack_from("<Q", data, at + 32 + 24)[0] // 8
    return borders + [at]


class Damage:
    def __init__(self, options, copy):
        self.options, self.copy, self.count, self.silent = options, copy, 0, 0
        self.all = told(options, copy, "whole")[1]["events"]

    def cut_stream(self, file, whole, at, borders, at_border):
        file.write_bytes(whole[:at])
        why = "%s cut at %d" % (file.name, at)
        done, facts = told(self.options, self.copy, why)
        begin = max(border for border in borders if border <= at)
        if at == begin:
            self.silent += done.returncode == 0
            return
        if done.returncode != 1 or not facts or not facts["damaged"]:
            fail(why + ": not said", done)
        if not any(begin <= said <= at for said in where(done, file)):
            fail(why + ": said at %s, the packet begins at %d" % (where(done, file), begin), done)
        after = min(border for border in borders if border > at)
        if not at_border[begin] <= facts["events"] <= at_border[after]:
            fail(why + ": %d events, not %d to %d" % (facts["events"], at_border[begin], at_border[after]), done)

    def change(self, file, whole, at, is_stream):
        for value in (0, 0xff, whole[at] ^ 1):
            file.write_bytes(whole[:at] + bytes([value]) + whole[at + 1:])
            why = "%s byte %d is %d" % (file.name, at, value)
            done, facts = told(self.options, self.copy, why)
            if done.returncode == 1 and is_stream and facts and facts["damaged"]:
                # Of its own packet, or the one before, whose size leads to it.
                if not where(done, file):
                    fail(why + ": it is not said where", done)
            if done.returncode == 0 and is_stream and facts["events"] + facts["foreign_events"] < self.all:
                fail(why + ": events are missing", done)

    def stream(self, file, whole):
        borders, at_border = packets(whole), {}
        for border in borders:
            file.write_bytes(whole[:border])
            done, facts = told(self.options, self.copy, "%s cut at %d" % (file.name, border))
            at_border[border] = facts["events"] if facts else 0
        for at in range(0, len(whole), self.options.every):
            self.cut_stream(file, whole, at, borders, at_border)
            self.change(file, whole, at, True)
            self.count += 4

    def metadata(self, file, whole):
        for at in range(0, len(whole), self.options.every):
            file.write_bytes(whole[:at])
            done, _ = told(self.options, self.copy, "metadata cut at %d" % at)
            if done.returncode == 1 and b"metadata" not in done.stderr:
                fail("metadata cut at %d: it is not said that it is" % at, done)
            self.silent += done.returncode == 0
            self.change(file, whole, at, False)
            self.count += 4


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cuward")
    parser.add_argument("trace")
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "trace"
        shutil.copytree(options.trace, copy)
        damage = Damage(options, copy)
        for file in sorted(copy.iterdir()):
            whole = file.read_bytes()
            (damage.metadata if file.name == "metadata" else damage.stream)(file, whole)
            file.write_bytes(whole)
    print("%d damages, %d cuts that do not show" % (damage.count, damage.silent))


main()
