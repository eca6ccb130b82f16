#!/usr/bin/env python3
"""make_ctf.py IN.events OUT - write events as text into a CTF 1.8 trace, with their exact times.

The schema is read from include/cuward/events.h. Tests use it to have traces without a session daemon,
also damaged ones: --lost N and --lost-packets N say that the tracer dropped some, --foreign N adds
events of another provider, --host NAME is where it was recorded, --streams N deals events out to N
streams, --packet N puts N events into each packet.
"""
import argparse
import hashlib
import re
import struct
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
WORDS = {"kind": "KINDS", "direction": "DIRECTIONS", "scope": "SCOPES", "how": "ENDS",
         "verdict": "VERDICTS"}
CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i", "x64": "Q"}
UUID = bytearray(16)  # of what is in the trace; set in main()


def macro(header, name):
    return re.search(r"#define %s\(.*?\n(.*?[^\\])\n" % name, header, re.S).group(1)


def read_schema():
    header = (TOP / "include/cuward/events.h").read_text()
    events = {}
    for name, fields in re.findall(r"X\((\w+), ((?:\s*\\?\s*F\(\w+, \w+\))+)\)",
                                   macro(header, "CUWARD_EVENTS")):
        events[name] = re.findall(r"F\((\w+), (\w+)\)", fields)
    words = {"what": ["created", "destroyed"]}
    for field, name in WORDS.items():
        words[field] = re.findall(r'X\(\w+, "([^"]*)"', macro(header, "CUWARD_" + name))
    return events, words


def value_of(field, text, words):
    if text.startswith('"'):
        return re.sub(r'\\(x[0-9a-fA-F]{2}|.)', lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1])
                      if m[1][0] != "x" else chr(int(m[1][1:], 16)), text[1:-1])
    if text in words.get(field, []):
        return words[field].index(text)
    return int(text, 0)


def read_events(path, schema, words):
    for line in Path(path).read_text().splitlines():
        if not line.strip() or line[0] in "#%":
            continue
        time, name, rest = (line.split(" ", 2) + [""])[:3]
        given = {f: value_of(f, v, words)
                 for f, v in re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)', rest)}
        payload = b""
        for kind, field in schema[name]:
            if kind == "str":
                payload += given.get(field, "").encode("latin-1") + b"\0"
            else:
                payload += struct.pack("<" + CODES[kind], given.get(field, 0))
        yield int(time), name, payload


def metadata(schema, ids, host):
    uuid = "%s-%s-%s-%s-%s" % tuple(UUID.hex()[a:b] for a, b in
                                    ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))
    text = """/* CTF 1.8 */
trace { major = 1; minor = 8; uuid = "%s"; byte_order = le;
 packet.header := struct { integer { size = 32; align = 8; } magic;
  integer { size = 8; align = 8; } uuid[16]; integer { size = 32; align = 8; } stream_id;
  integer { size = 64; align = 8; } stream_instance_id; }; };
env { hostname = "%s"; domain = "ust"; tracer_name = "lttng-ust"; };
clock { name = "monotonic"; freq = 1000000000; offset = 0; };
stream { id = 0;
 packet.context := struct {
  integer { size = 64; align = 8; map = clock.monotonic.value; } timestamp_begin;
  integer { size = 64; align = 8; map = clock.monotonic.value; } timestamp_end;
  integer { size = 64; align = 8; } content_size; integer { size = 64; align = 8; } packet_size;
  integer { size = 64; align = 8; } packet_seq_num;
  integer { size = 64; align = 8; } events_discarded; };
 event.header := struct { integer { size = 32; align = 8; } id;
  integer { size = 64; align = 8; map = clock.monotonic.value; } timestamp; }; };
""" % (uuid, host)
    for name, number in ids.items():
        fields = ""
        for kind, field in schema.get(name, [("u32", "value")]):
            if kind == "str":
                fields += "string _%s; " % field
            else:
                fields += "integer { size = %d; align = 8; signed = %s; base = %d; } _%s; " % (
                    struct.calcsize("<" + CODES[kind]) * 8, str(kind == "i32").lower(),
                    16 if kind == "x64" else 10, field)
        owner = "cuward:" if name in schema else ""
        text += 'event { name = "%s%s"; id = %d; stream_id = 0; fields := struct { %s}; };\n' % (
            owner, name, number, fields)
    return text


def write_stream(path, number, events, ids, options):
    data, discarded, sequence = b"", 0, 0
    for start in range(0, len(events), options.packet):
        packet = events[start:start + options.packet]
        body = b"".join(struct.pack("<IQ", ids[name], time) + payload
                        for time, name, payload in packet)
        if start and number == 0 and start // options.packet == 1:
            discarded, sequence = options.lost, options.lost_packets
        bits = (32 + 48 + len(body)) * 8
        data += struct.pack("<I16sIQ", 0xC1FC1FC1, bytes(UUID), 0, number)
        data += struct.pack("<QQQQQQ", packet[0][0], packet[-1][0], bits, bits,
                            sequence + start // options.packet, discarded)
        data += body
    path.write_bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events")
    parser.add_argument("out")
    numbers = {"lost": 0, "lost-packets": 0, "foreign": 0, "streams": 1, "packet": 4}
    for name, value in numbers.items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--host", default="localhost")
    options = parser.parse_args()
    schema, words = read_schema()
    ids = {name: i for i, name in enumerate([*schema, "other:thing"])}
    events = list(read_events(options.events, schema, words))
    UUID[:] = hashlib.md5(repr((events, options.host)).encode()).digest()
    last = events[-1][0] if events else 1
    events += [(last, "other:thing", struct.pack("<I", i)) for i in range(options.foreign)]
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "metadata").write_text(metadata(schema, ids, options.host))
    for number in range(options.streams):
        dealt = events[number::options.streams]
        if dealt:
            write_stream(out / ("channel0_%d" % number), number, dealt, ids, options)
    return 0


sys.exit(main())
