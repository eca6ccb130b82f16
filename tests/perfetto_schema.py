#!/usr/bin/env python3
"""perfetto_schema.py PACKAGES FILE STATS - FILE, decoded by Perfetto's own messages, beside `cuward stats --json`.

PACKAGES is a folder with the packages perfetto and protobuf. Every field must be one that Perfetto knows, at
any depth; strings must be interned, tracks told before they are used, times ordered within a slice. Then calls,
their time and errors, kernels on the GPU, peaks, limits and refusals must be those of the tables.
"""
import collections
import json
import sys

sys.path.insert(0, sys.argv[1])
from google.protobuf.unknown_fields import UnknownFieldSet  # noqa: E402
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto  # noqa: E402


def need(fine, *what):
    if not fine:
        sys.exit("perfetto_schema: " + " ".join(map(str, what)))


def walk(message):
    need(not len(UnknownFieldSet(message)), "an unknown field in", message.DESCRIPTOR.name)
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for one in value if field.label == field.LABEL_REPEATED else [value]:
                walk(one)


def main():
    trace, names, tracks, begun = perfetto.Trace(), {}, {}, {}
    with open(sys.argv[2], "rb") as file:
        trace.ParseFromString(file.read())
    walk(trace)
    kinds = perfetto.TrackEvent
    calls, times = collections.Counter(), collections.Counter()
    work, work_times = collections.Counter(), collections.Counter()
    levels, instants, begins, ends = {}, collections.Counter(), collections.Counter(), collections.Counter()

    # A thread's calls that overlap go to a sibling below its process; work on a GPU is below its device.
    def is_call(track):
        return track.HasField("thread") or "GPU" not in tracks[track.parent_uuid].name

    for packet in trace.packet:
        for one in packet.interned_data.event_names:
            names[one.iid] = one.name
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if not packet.HasField("track_event"):
            continue
        event, at = packet.track_event, packet.timestamp
        track = tracks.get(event.track_uuid)
        need(track is not None, "an event of a track that was not told")
        need(packet.HasField("timestamp"), "no time")
        if event.type == kinds.TYPE_COUNTER:
            need(track.HasField("counter"), "a value of a track that is no counter")
            need(track.counter.unit == perfetto.CounterDescriptor.UNIT_SIZE_BYTES, "bytes of something else")
            process = tracks[track.parent_uuid].process
            levels.setdefault((process.process_name, track.name), []).append(event.counter_value)
            continue
        if event.type == kinds.TYPE_SLICE_END:
            name, since = begun[event.track_uuid].pop()
            need(at >= since, name, "ends before it begins")
            (times if is_call(track) else work_times)[name] += at - since
            continue
        need(event.name_iid in names, "a name that was not told")
        name = names[event.name_iid]
        if event.type == kinds.TYPE_INSTANT:
            instants[name] += 1
            continue
        need(event.type == kinds.TYPE_SLICE_BEGIN, "type", event.type)
        begun.setdefault(event.track_uuid, []).append((name, at))
        need(len(begun[event.track_uuid]) == 1, "slices overlap")
        (calls if is_call(track) else work)[name] += 1
        for flow in event.flow_ids:
            (begins if is_call(track) else ends)[flow] += 1
    need(not any(begun.values()), "a slice without an end")
    compare(json.load(open(sys.argv[3])), calls, times, work, work_times, levels, instants)
    # An arrow has two ends, and is one launch's.
    need(all(begins[flow] == 1 and count == 1 for flow, count in ends.items()), "an arrow without its launch")
    print(json.dumps({"calls": sum(calls.values()), "work": sum(work.values()), "arrows": len(ends),
                      "refused": instants["refused"], "counters": sorted({name for _, name in levels})}))


def compare(stats, calls, times, work, work_times, levels, instants):
    shown = {row["name"]: "call " + row["name"] if row["name"].isdigit() else row["name"] for row in stats["calls"]}
    told = {shown[row["name"]]: (row["count"], row["ns"]) for row in stats["calls"]}
    ours = {name: (count, times[name]) for name, count in calls.items()}
    need(told == ours, "calls", told, ours)
    timed = {row["shown"]: (row["timed"], row["ns"]) for row in stats["kernels"] if row["timed"]}
    ours = {name: (count, work_times[name]) for name, count in work.items() if name in timed}
    need(timed == ours, "kernels", timed, ours)
    copies = sum(row["timed"] for row in stats["copies"])
    need(sum(work.values()) - sum(count for count, _ in ours.values()) >= copies, "copies")
    need(instants["refused"] == sum(row["denied"] for row in stats["processes"]), "refusals")
    for row in stats["processes"]:
        if row["pid"] is None:
            continue
        whose = "%s (pid %d on %s)" % (row["command"], row["pid"], row["host"])
        mine = {name: values for (process, name), values in levels.items() if process == whose}
        memory = [values for name, values in mine.items() if name.endswith(" memory")]
        limits = [values for name, values in mine.items() if name.endswith(" limit")]
        peak = max((max(values) for values in memory), default=0)
        need(peak == row["peak_bytes"] or (len(memory) > 1 and peak < row["peak_bytes"]), "peak of", whose)
        need(sum(values[-1] for values in memory) in (row["final_bytes"], 0), "end of", whose)
        need({value for values in limits for value in values} <= {row["limit_bytes"]}, "limit of", whose)


main()
