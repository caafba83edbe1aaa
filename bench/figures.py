#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records measurements: one JSON object a line with figure, value, unit, commit, machine and time.

... | figures.py FILE CAPTION UNIT KEY appends the JSON lines of standard input, {"tool": ..., KEY: value}, to FILE, and copies them to
standard output.
"""
import datetime
import json
import os
import subprocess
import sys


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown processor")
    return f"{os.cpu_count()} x {model}"


def commit():
    folder = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=folder, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def append(path, figure, value, unit, of_commit=None):
    """Appends one figure to the file `path`; `of_commit`: the commit whose programs were measured, by default this tree's."""
    time = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    record = {"figure": figure, "value": value, "unit": unit, "commit": of_commit or commit(), "machine": machine(), "time": time}
    with open(path, "a", encoding="utf-8") as file:
        print(json.dumps(record), file=file)


def main():
    path, caption, unit, key = sys.argv[1:]
    for line in sys.stdin:
        sys.stdout.write(line)
        entry = json.loads(line)
        append(path, f"{caption}: {entry['tool']}", entry[key], unit)


if __name__ == "__main__":
    main()
