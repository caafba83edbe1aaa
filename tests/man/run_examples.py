#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_examples.py SCRATCH SOURCE...: runs the EXAMPLES of man pages (man/lm-x.1.in) in the directory SCRATCH.

An example is a literal block (.Bd -literal ... .Ed) or a .Dl line; it is run by bash -e and must succeed. A comment on
the line before changes that:
    .\\" cluster       needs mpirun, srun or more hosts: skipped and counted
    .\\" site: WHY     needs a GPU, a large file or similar: skipped and counted
    .\\" exits N       ends with that code; "exits N or M": with one of these
    .\\" SIGINT after N s: exits M
                      one command, which runs until Ctrl-C: gets SIGINT after N seconds
Lines of a block that begin with two spaces continue the previous line, for the shell too.
"""
import re
import subprocess
import sys


def plain(line):
    """Returns a line of mdoc with its escapes resolved."""
    return line.replace("\\e", "\\").replace("\\-", "-").replace("\\&", "").replace("\\(aq", "'")


def examples_of(source):
    """Yields (line number, comment, text)."""
    section, comment, block = "", "", None
    for number, line in enumerate(open(source), 1):
        line = line.rstrip("\n")
        if line.startswith(".Sh"):
            section = line[4:]
        if section != "EXAMPLES":
            continue
        if line.startswith('.\\"'):
            comment = line[3:].strip()
        elif line.startswith(".Bd -literal"):
            block = []
            begin = number
        elif line == ".Ed":
            yield begin, comment, "\n".join(block)
            block, comment = None, ""
        elif block is not None:
            block.append(plain(line))
        elif line.startswith(".Dl "):
            yield number, comment, plain(line[4:])
            comment = ""


def run(scratch, place, comment, text):
    """Runs an example. Returns whether it exited with an expected code."""
    until_stopped = re.match(r"SIGINT after (\d+) s: ", comment)
    if until_stopped:
        text = f"timeout --preserve-status -s INT {until_stopped[1]} {text}"
        comment = comment[until_stopped.end():]
    expected = [int(code) for code in re.findall(r"\d+", comment)] if comment.startswith("exits ") else [0]
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=scratch, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=240)
    if done.returncode in expected:
        return True
    print(f"{place}: exit code {done.returncode}, expected {' or '.join(map(str, expected))}:\n{text}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return False


def main():
    scratch, sources = sys.argv[1], sys.argv[2:]
    ran = skipped = failed = 0
    for source in sources:
        found = list(examples_of(source))
        if not found:
            print(f"{source}: no examples")
            failed += 1
        for number, comment, text in found:
            if re.match(r"cluster$|site: ", comment):
                skipped += 1
                continue
            ran += 1
            failed += not run(scratch, f"{source}:{number}", comment, text)
    print(f"{ran} examples ran, {failed} failed, {skipped} need more than a test has")
    return 1 if failed else 0


sys.exit(main())
