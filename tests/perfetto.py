#!/usr/bin/env python3
"""perfetto.py FILE - the tracks and events of a Perfetto trace as lines of JSON, decoded by hand.

Only what Perfetto's own messages define is accepted: an unknown field is an error. A slice comes as
one line once it ended; slices of a track must nest, and here not even overlap.
"""
import json
import struct
import sys


def fields(data):
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        elif kind == 1:
            yield key >> 3, struct.unpack_from("<Q", data, at)[0]
            at += 8
        elif kind == 2:
            length = varint()
            assert at + length <= len(data)
            yield key >> 3, data[at:at + length]
            at += length
        else:
            raise ValueError("wire type %d" % kind)


def message(data, names):
    out = {}
    for number, value in fields(data):
        name = names[number]
        if name.endswith("*"):
            out.setdefault(name[:-1], []).append(value)
        else:
            assert name not in out, name
            out[name] = value
    return out


PACKET = {8: "timestamp", 10: "sequence", 11: "event", 12: "interned", 13: "flags", 60: "track"}
EVENT = {4: "note*", 9: "type", 10: "name", 11: "track", 30: "value", 47: "flow*"}
TRACK = {1: "uuid", 2: "name", 3: "process", 4: "thread", 5: "parent", 8: "counter"}
NOTE = {3: "uint", 4: "int", 10: "name"}


def main():
    data = open(sys.argv[1], "rb").read()
    names, tracks, open_slices, last_end = {}, {}, {}, {}
    first = True
    for number, raw in fields(data):
        assert number == 1
        packet = message(raw, PACKET)
        assert packet["sequence"] == 1
        assert (packet.get("flags") == 1) == first
        first = False
        for _, value in fields(packet.get("interned", b"")):
            entry = message(value, {1: "id", 2: "text"})
            names[entry["id"]] = entry["text"].decode()
        if "track" in packet:
            track = message(packet["track"], TRACK)
            line = {"track": track["uuid"]}
            if "process" in track:
                process = message(track["process"], {1: "pid", 6: "name"})
                line.update(process=process["name"].decode(), pid=process["pid"])
            elif "thread" in track:
                thread = message(track["thread"], {1: "pid", 2: "tid", 5: "name"})
                line.update(thread=thread["name"].decode(), tid=thread["tid"], pid=thread["pid"])
            else:
                assert track["parent"] in tracks
                line.update(name=track["name"].decode(), parent=track["parent"])
            if "counter" in track:
                assert message(track["counter"], {3: "unit"}) == {"unit": 3}
                line["counter"] = True
            tracks[track["uuid"]] = line
            print(json.dumps(line))
        if "event" not in packet:
            continue
        event = message(packet["event"], EVENT)
        at, track = packet["timestamp"], event["track"]
        assert track in tracks, "a track that was not told"
        if event["type"] == 4:
            assert tracks[track].get("counter") and "thread" not in tracks[track]
            print(json.dumps({"on": track, "at": at, "value": event["value"]}))
        elif event["type"] == 3:
            print(json.dumps({"on": track, "at": at, "instant": names[event["name"]]}))
        elif event["type"] == 1:
            assert track not in open_slices, "slices overlap"
            assert at >= last_end.get(track, 0), "slices overlap"
            line = {"on": track, "at": at, "slice": names[event["name"]]}
            for note in event.get("note", []):
                parts = message(note, NOTE)
                line[parts["name"].decode()] = parts.get("uint", parts.get("int"))
            if "flow" in event:
                line["flow"] = event["flow"]
            open_slices[track] = line
        else:
            line = open_slices.pop(track)
            line["ns"] = at - line["at"]
            assert line["ns"] >= 0
            last_end[track] = at
            print(json.dumps(line))
    assert not open_slices


main()
