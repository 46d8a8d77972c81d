#!/usr/bin/env python3
# Copyright 2026 The Taut authors
# SPDX-License-Identifier: Apache-2.0
"""Multiplies the Kineto traces of a real run to N times their events.

The recorded steps are repeated one after the other, as if the job had run on:
every copy lies one period later and has its own correlation, external, flow,
event and Python ids, sequence numbers and ProfilerStep numbers. Period and id
distances are the same for all ranks, so collectives still meet. Whatever
describes the whole recording (process names, the recording's own span) is
written once. The text of the events is kept byte for byte but for those numbers.

The period is the longest time that any thread or stream of any rank is in use,
so no lane overlaps its own next copy.

Memory follows the input, not the output: one rank's text and its parse.
"""

import argparse
import glob
import gzip
import json
import math
import multiprocessing
import operator
import os
import re
import sys

CHUNK_EVENTS = 2000  # events formatted at a time
SENTINELS = {2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1}  # ways to write "none"
FLOW_PHASES = {"s", "t", "f"}

# Ids that all move by one distance, since tools join them with each other.
# The value is the least number that is an id: where 0 means "none", it is 1.
LINKED_IDS = {
    "correlation": 1,
    "External id": 1,
    "external id": 1,
    "wait_on_cuda_event_record_corr_id": 1,
    "Record function id": 1,
    "Ev Idx": 0,
    "Python id": 0,
    "Python parent id": 0,
    "id": 0,
}
COUNTED = {"Sequence number": 0, "Seq": 0}  # these go on counting

# An unescaped quote in front of a key can only open that key: no string in
# valid JSON holds one, so the text may be searched without a full parse.
NUMBERS = re.compile(
    r'(?<!\\)"(?:(?P<key>ts|' + "|".join([*LINKED_IDS, *COUNTED]) + r')"\s*:\s*"?'
    r'(?P<number>-?\d+)(?P<rest>[^,}\]"\s]*)|name"\s*:\s*"ProfilerStep\s*#\s*(?P<step>\d+))'
)
DURATION = re.compile(r'(?<!\\)("dur"\s*:\s*)(\d+)')
EVENTS_BEGIN = re.compile(r'(?<!\\)"traceEvents"\s*:\s*\[')
GAP = re.compile(r"[\s,]*")


class Refused(Exception):
    """An input that cannot be multiplied soundly, and why."""


class Events:
    """One trace file: text before the events, the events, text after them."""

    def __init__(self, path):
        opener = gzip.open if path.endswith(".gz") else open
        with opener(path, "rb") as source:
            # One character a byte, so that all text comes out as it went in.
            self.text = source.read().decode("latin-1")
        self.path = path
        begin = EVENTS_BEGIN.search(self.text)
        if begin:
            self.begin = begin.end()
        elif self.text.lstrip()[:1] == "[":
            self.begin = self.text.index("[") + 1
        else:
            raise Refused(f"{path}: no traceEvents")
        self.end = self.begin

    def __iter__(self):
        """Yields (event, its text); sets .end to the place of the closing ]."""
        decode = json.JSONDecoder().raw_decode
        place = GAP.match(self.text, self.begin).end()
        while self.text[place : place + 1] == "{":
            try:
                event, after = decode(self.text, place)
            except ValueError as problem:
                raise Refused(f"{self.path}: {problem}") from None
            yield event, self.text[place:after]
            place = GAP.match(self.text, after).end()
        if self.text[place : place + 1] != "]":
            raise Refused(f"{self.path}: events are not closed at byte {place}: truncated?")
        self.end = place


def standing(event):
    """How an event that tells of the whole recording is kept, else None."""
    if event.get("ph") == "M":
        return "once"
    if event.get("cat") == "Trace":
        return "stretched"
    name = str(event.get("name", ""))
    if event.get("ph") in ("i", "I") and name.startswith("Iteration Start"):
        return "once"
    if name == "Record Window End":
        return "at-end"
    return None


def numbers_of(event, text):
    """Yields (key, value, begin, end) of each number that a copy changes.

    Key is "step" for the number of a ProfilerStep.
    """
    time_seen = False
    for match in NUMBERS.finditer(text):
        if match["step"] is not None:
            yield "step", int(match["step"]), match.start("step"), match.end("step")
            continue
        key, value = match["key"], int(match["number"])
        rest = match["rest"]
        if key == "ts":
            if time_seen or "e" in rest.lower():
                if not time_seen:
                    raise Refused(f"time with an exponent: {match[0]}")
                continue
            time_seen = True
        elif key == "id":
            if event.get("ph") not in FLOW_PHASES:
                continue
            if rest:
                raise Refused(f"flow id is not a decimal number: {match[0]}")
            if value == 0 and event.get("cat") == "ac2g":
                continue
        elif rest or value < {**LINKED_IDS, **COUNTED}[key] or value in SENTINELS:
            continue
        yield key, value, match.start("number"), match.end("number")


def scan(path):
    """What the copies' distances must be wide enough for, in this file."""
    ranges, lanes, count, repeated = {}, {}, 0, 0
    for event, text in Events(path):
        count += 1
        if standing(event):
            continue
        repeated += 1
        try:
            for key, value, _, _ in numbers_of(event, text):
                low, high = ranges.get(key, (value, value))
                ranges[key] = (min(low, value), max(high, value))
        except Refused as problem:
            raise Refused(f"{path}: event {count}: {problem}") from None
        if "ts" in event and event.get("ph") not in FLOW_PHASES:
            lane = (event.get("pid"), event.get("tid"))
            start = float(event["ts"])
            end = start + float(event.get("dur") or 0)
            low, high = lanes.get(lane, (start, end))
            lanes[lane] = (min(low, start), max(high, end))
    if not lanes:
        raise Refused(f"{path}: no events with a time")
    period_us = max(high - low for low, high in lanes.values())
    return {"ranges": ranges, "period_us": period_us, "events": count, "repeated": repeated}


def distances(scans):
    """{key: how far each copy lies behind the one before}, for all files."""
    ranges = {}
    for one in scans:
        for key, (low, high) in one["ranges"].items():
            seen = ranges.get(key, (low, high))
            ranges[key] = (min(low, seen[0]), max(high, seen[1]))
    span = {key: high - low + 1 for key, (low, high) in ranges.items()}
    linked = max([span[key] for key in LINKED_IDS if key in span], default=1)
    by_key = {key: linked for key in LINKED_IDS}
    by_key.update({key: span.get(key, 0) for key in COUNTED})
    by_key["step"] = span.get("step", 0)
    # One microsecond more, whole: fractions of times then stay as they are.
    by_key["ts"] = math.ceil(max(one["period_us"] for one in scans)) + 1
    return by_key


class Template:
    """A run of events as text with places for the numbers that change."""

    def __init__(self):
        self.parts, self.values, self.steps, self.events = [], [], [], 0

    def add(self, event, text, by_key):
        place = 0
        self.parts.append(",\n  " if self.events else "")
        for key, value, begin, end in numbers_of(event, text):
            self.parts.append(text[place:begin].replace("%", "%%"))
            self.parts.append("%d")
            self.values.append(value)
            self.steps.append(by_key[key])
            place = end
        self.parts.append(text[place:].replace("%", "%%"))
        self.events += 1

    def close(self):
        self.text = "".join(self.parts).encode("latin-1")
        self.parts = []

    def next_copy(self):
        """The text of the next copy; each call moves on by one."""
        text = self.text % tuple(self.values)
        self.values = list(map(operator.add, self.values, self.steps))
        return text


def stretched(text, more_us):
    return DURATION.sub(lambda m: m[1] + str(int(m[2]) + more_us), text, count=1)


def late(event, text, by_key, copies):
    """The event as the last copy would have it: the end of the recording."""
    template = Template()
    template.add(event, text, by_key)
    template.close()
    for _ in range(copies - 1):
        template.next_copy()
    return template.next_copy().decode("latin-1")


def compile_events(events, by_key, copies):
    """(texts written once, texts written last, templates)."""
    once, last, templates = [], [], []
    for event, text in events:
        kind = standing(event)
        if kind == "once":
            once.append(text)
        elif kind == "stretched":
            once.append(stretched(text, by_key["ts"] * (copies - 1)))
        elif kind == "at-end":
            last.append(late(event, text, by_key, copies))
        else:
            if not templates or templates[-1].events >= CHUNK_EVENTS:
                templates.append(Template())
            templates[-1].add(event, text, by_key)
    for template in templates:
        template.close()
    return once, last, templates


def write(path, events, parts, copies, level):
    once, last, templates = parts
    part = path + ".part"
    opener = (lambda: gzip.open(part, "wb", level)) if path.endswith(".gz") else (
        lambda: open(part, "wb")
    )
    comma = b",\n  "
    with opener() as sink:
        sink.write((events.text[: events.begin] + "\n  ").encode("latin-1"))
        sink.write(comma.join(text.encode("latin-1") for text in once))
        first = not once
        for _ in range(copies):
            for template in templates:
                sink.write(b"" if first else comma)
                sink.write(template.next_copy())
                first = False
        for text in last:
            sink.write(comma + text.encode("latin-1"))
        sink.write(("\n  " + events.text[events.end :]).encode("latin-1"))
    os.replace(part, path)


def multiply(work):
    source, target, by_key, copies, level = work
    events = Events(source)
    parts = compile_events(events, by_key, copies)
    write(target, events, parts, copies, level)
    count = len(parts[0]) + len(parts[1])
    count += copies * sum(template.events for template in parts[2])
    return target, count, os.path.getsize(target)


def check(work):
    """Reads a result again as a whole; Refused when it is not what it should be."""
    path, count, copies, repeated, (steps, linked) = work
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as source:
        events = json.load(source)
    events = events["traceEvents"] if isinstance(events, dict) else events
    if len(events) != count:
        raise Refused(f"{path}: {len(events)} events, {count} expected")
    moving = sum(1 for event in events if not standing(event))
    if moving != copies * repeated:
        raise Refused(f"{path}: {moving} repeated events, {copies * repeated} expected")
    found = steps_in(events)
    if found != copies * steps:
        raise Refused(f"{path}: {found} steps, {copies * steps} expected")
    launches = launches_in(events)
    if launches != copies * linked:
        raise Refused(f"{path}: {launches} correlations, {copies * linked} expected")
    return path


def launches_in(events):
    """How many correlations there are: one for each launch and its kernel."""
    found = {(event.get("args") or {}).get("correlation", 0) for event in events}
    return sum(1 for one in found if int(one) > 0 and int(one) not in SENTINELS)


def steps_in(events):
    names = {str(event.get("name", "")) for event in events}
    return sum(1 for name in names if name.startswith("ProfilerStep#"))


def contents(path):
    """(steps, correlations) of a source, to check its result by."""
    events = [event for event, _ in Events(path)]
    return steps_in(events), launches_in(events)


def inputs(source):
    if os.path.isfile(source):
        return [source]
    found = glob.glob(os.path.join(source, "*.json"))
    found = sorted(found + glob.glob(os.path.join(source, "*.json.gz")))
    if not found:
        raise Refused(f"{source}: no .json or .json.gz")
    return found


def target_name(source, folder, kind):
    name = os.path.basename(source)
    if kind == "plain" and name.endswith(".gz"):
        name = name[: -len(".gz")]
    if kind == "gzip" and not name.endswith(".gz"):
        name += ".gz"
    return os.path.join(folder, name)


def run(options):
    sources = inputs(options.source)
    if options.ranks:
        sources = sources[: options.ranks]
    os.makedirs(options.target, exist_ok=True)
    if os.path.samefile(options.target, os.path.dirname(sources[0]) or "."):
        raise Refused("the results would replace their originals")
    jobs = min(options.jobs or os.cpu_count() or 1, len(sources))
    kind = "plain" if options.plain else "gzip" if options.gzip else "same"
    with multiprocessing.Pool(jobs) as pool:
        scans = pool.map(scan, sources, chunksize=1)
        by_key = distances(scans)
        work = [
            (one, target_name(one, options.target, kind), by_key, options.times, options.level)
            for one in sources
        ]
        done = pool.map(multiply, work, chunksize=1)
        if options.check:
            held = pool.map(contents, sources, chunksize=1)
            wanted = [
                (path, count, options.times, one["repeated"], source)
                for (path, count, _), one, source in zip(done, scans, held)
            ]
            pool.map(check, wanted, chunksize=1)
    events = sum(count for _, count, _ in done)
    size = sum(size for _, _, size in done)
    print(
        f"{len(done)} files, {events} events, {size / 1e6:.1f} MB, "
        f"period {by_key['ts']} us, ids {by_key['correlation']} apart"
        + (", checked" if options.check else "")
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("source", help="a trace or a folder of traces (.json, .json.gz)")
    parser.add_argument("target", help="folder for the results, same file names")
    parser.add_argument("times", type=int, help="how many times the events")
    parser.add_argument("--plain", action="store_true", help="write .json")
    parser.add_argument("--gzip", action="store_true", help="write .json.gz")
    parser.add_argument("--level", type=int, default=6, help="gzip level (default 6)")
    parser.add_argument("--ranks", type=int, default=0, help="only the first so many files")
    parser.add_argument("--jobs", type=int, default=0, help="files at a time (default: cores)")
    parser.add_argument(
        "--check", action="store_true", help="read the results again and check them"
    )
    options = parser.parse_args()
    if options.times < 1 or (options.plain and options.gzip):
        parser.error("times must be 1 or more, and one of --plain and --gzip at most")
    try:
        run(options)
    except (Refused, OSError) as problem:
        sys.exit(f"multiply: {problem}")


if __name__ == "__main__":
    main()
