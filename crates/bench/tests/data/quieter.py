#!/usr/bin/env python3
"""Result lines of `tacho bench` as a quieter machine would have given: each measured value moves
towards the median of its method under its load. Only blocks change; `tacho bench --results`
computes the figures from them.

    quieter.py FACTOR [METHOD=SHARE...] [threads=N] <LINES >LINES

FACTOR is the part of the noise that stays. SHARE replaces the median throughput of a method with
this share of that without an audit, for the forms of the answer that a real run had not. With
`threads` only blocks with so many connections change.
"""

import json
import math
import statistics
import sys

factor = float(sys.argv[1])
shares = {name: float(share) for name, _, share in (arg.partition("=") for arg in sys.argv[2:])}
threads = shares.pop("threads", None)
lines = [json.loads(line) for line in sys.stdin]
blocks = [line for line in lines if line["type"] == "block"]


def value(block, name):
    """Queries per second, processor time per query in seconds, or a latency."""
    if name == "cpu":
        return block["cpu"]["total_s"] / block["queries"]
    return block["qps"] if name == "qps" else block["latency"][name]


def median(method, load, name):
    # The server against itself is the same server.
    same = {"none", "none-again"}
    methods = same if method in same else {method}
    return statistics.median(
        value(b, name) for b in blocks if b["method"] in methods and load_of(b) == load
    )


def load_of(block):
    return block["workload"], block["threads"], block["rate"]


medians = {
    (block["method"], load_of(block), name): median(block["method"], load_of(block), name)
    for block in blocks
    for name in ("qps", "cpu", *(block["latency"] or ()))
}
for block in blocks:
    if threads not in (None, block["threads"]):
        continue
    method, load = block["method"], load_of(block)
    goal = {name: medians[method, load, name] for name in ("qps", "cpu", *(block["latency"] or ()))}
    if method in shares:
        goal["qps"] = medians["none", load, "qps"] * shares[method]
        goal["cpu"] = medians["none", load, "cpu"] / shares[method]

    def moved(name):
        return goal[name] * math.exp(
            factor * math.log(value(block, name) / medians[method, load, name])
        )

    qps, cpu = moved("qps"), moved("cpu")
    block["cpu"] = {
        name: part * cpu * qps / (value(block, "cpu") * block["qps"])
        if name.endswith("_s")
        else part
        for name, part in block["cpu"].items()
    }
    for name in block["latency"] or ():
        block["latency"][name] = moved(name)
    # Two servers are compared by events.
    block["events"] = round(block["events"] * qps / block["qps"])
    block["tps"] *= qps / block["qps"]
    block["events_cpu_s"] = cpu * qps * block["seconds"]
    block["queries"] = round(qps * block["seconds"])
    block["qps"] = qps
for line in lines:
    print(json.dumps(line, separators=(",", ":")))
