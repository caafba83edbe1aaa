# SPDX-License-Identifier: Apache-2.0
"""Helpers of the live comparisons. Each gets the build directory as its argument, and exits with 77 if it must skip."""
import os
import subprocess
import sys

BUILD = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def skip(reason):
    print("skipped: " + reason)
    sys.exit(77)


def fail(reason):
    print("failed: " + reason)
    sys.exit(1)


def tool(name):
    path = os.path.join(BUILD, "bin", name)
    if not os.access(path, os.X_OK):
        fail(f"{name} has not been built")
    return path


def run(*command, **options):
    """Runs a command and returns its output; ends the test if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode:
        fail(f"{' '.join(command)}: exit {done.returncode}")
    return done.stdout


def corpus():
    """Returns the path of the demo's corpus; makes it if it does not exist."""
    for path in (os.path.join(ROOT, "demo-run", "corpus.jsonl"), os.path.join(BUILD, "corpus.jsonl")):
        if os.path.exists(path):
            return path
    run(os.path.join(ROOT, "tools", "make-corpus"), path)
    return path
