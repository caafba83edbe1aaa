#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_page.py BINDIR PROGRAM PAGE: compares a man page with --help-all.

The rendered OPTIONS section lists exactly the options of --help-all of the program and its verbs. Every --option that the rest
of the page mentions belongs to a program of BINDIR, or is in a line with the command of another program (mpirun, srun...).
"""
import os
import re
import subprocess
import sys

OTHERS = re.compile(r"\b(mpirun|srun|sbatch|SBATCH|scontrol|timeout|torchrun|curl|git|tar|zstd|xz|column)\b")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"}).stdout


def verbs_of(help_text):
    block = re.search(r"^Commands .*\n((?: .*\n)+)", help_text, re.M)
    return re.findall(r"^  (\S+)", block.group(1), re.M) if block else []


def names_in_help(help_text):
    names = re.findall(r"^  (?:-\w, )?(--[\w-]+)", help_text, re.M)
    ignored = re.search(r"^Accepted and ignored.*\n((?: .*\n)+)", help_text, re.M)
    return set(names) | set(re.findall(r"--[\w-]+", ignored.group(1)) if ignored else [])


def names_of_program(program):
    text = run(program, "--help-all")
    return names_in_help(text).union(*(names_in_help(run(program, verb, "--help-all")) for verb in verbs_of(text)))


def rendered(page):
    text = run("mandoc", "-T", "ascii", "-O", "width=200", page)
    return re.sub(".\b", "", text)


def main():
    bindir, program, page = sys.argv[1:]
    text = rendered(page)
    parts = re.split(r"^(?=[A-Z])", text, flags=re.M)
    options = next(part for part in parts if part.startswith("OPTIONS"))
    in_page = set(re.findall(r"^     (--[\w-]+)", options, re.M))
    in_help = names_of_program(program)
    bad = [f"{name}: in --help-all but not in the page" for name in sorted(in_help - in_page)]
    bad += [f"{name}: in the page but not in --help-all" for name in sorted(in_page - in_help)]
    known = set().union(*(names_of_program(os.path.join(bindir, name)) for name in os.listdir(bindir)
                          if name.startswith("lm-")))
    aliases = set(re.findall(r"--[\w-]+", " ".join(re.findall(r"^     --[\w-]+(?:, --?[\w-]+)+", options, re.M))))
    for line in text.replace(options, "").splitlines():
        for name in re.findall(r"(?<![\w-])--[a-z][\w-]+", line):
            if name not in known | aliases and not OTHERS.search(line):
                bad.append(f"{name}: mentioned, but no such option: {line.strip()}")
    for problem in bad:
        print(f"{page}: {problem}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
