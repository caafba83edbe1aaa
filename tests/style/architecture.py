#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/architecture.md, CONTRIBUTING.md, lib/LAYERS and the files that comments name against the tree.

usage: architecture.py ROOT

Each folder below lib, at any depth, and each folder of cmd has a row "| `lib/io` | sentence |" of a table, and each
row has a folder. Each stop `path:function` names an existing file that defines the function (`name` or `Class::name`) or the
type. Each path below lib, cmd or tests without a function exists too. Each layer of lib/LAYERS has a comment above its line.
Each header that a // comment in lib, cmd or tests names exists, whole or as the end of a path; so does each source with a path
from the root. Other names (preprocess_data.py) may be files of other projects.
"""

import os
import re
import sys

STOP = re.compile(r"`([\w./-]+\.(?:cpp|hpp|cu|cuh|py|sh)):([\w:~]+)`")
BARE = re.compile(r"`((?:lib|cmd|tests)/[\w./-]+)`")
CITED = re.compile(r"(?<![\w./-])(?:[\w./-]*\w\.(?:hpp|cuh)|(?:lib|cmd|tests)/[\w./-]*\w\.(?:cpp|cu|py|sh))\b(?![\w/])")
ROW = re.compile(r"^\| `([\w/.-]+)` \| *(\S.*) \|$", re.M)


def folders(root):
    for path, names, _ in os.walk(os.path.join(root, "lib")):
        names[:] = sorted(name for name in names if name[0] != ".")
        for name in names:
            yield os.path.relpath(os.path.join(path, name), root)
    for program in sorted(os.listdir(os.path.join(root, "cmd"))):
        if program[0] != "." and os.path.isdir(os.path.join(root, "cmd", program)):
            yield f"cmd/{program}"


def defines(source, function):
    """Returns whether C++ source defines a function or a type, and does not only call it."""
    scope, _, name = function.rpartition("::")
    source = re.sub(r"//[^\n]*", "", source)
    if not scope and re.search(rf"\b(?:class|struct|enum class)\s+{name}\b\s*(?:final)?\s*[:{{]", source):
        return True
    if scope and not re.search(rf"\b{scope.split('::')[-1]}\b", source):
        return False
    qualified = rf"\b{re.escape(function)}\(" if scope else rf"(?<![\w.:>]){name}\("
    # At the start of a line, after its type; or as a member in the class itself.
    if re.search(rf"^(?!return\b)[\w\[].*{qualified}", source, re.M) or re.search(rf"^{qualified}", source, re.M):
        return True
    member = rf"^    (?!return\b|throw\b)(?:[\w:<>,*& \[\]]+[ &*])?{name}\("
    return re.search(member, source, re.M) is not None and (not scope or re.search(rf"(?:class|struct) {scope}\b", source) is not None)


def sources(root):
    for top in ("lib", "cmd", "tests"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), root)


def comment_faults(root):
    paths = sorted(sources(root))
    ends = {path[at:] for path in paths for at in range(len(path)) if at == 0 or path[at - 1] == "/"}
    for path in paths:
        if not path.endswith((".cpp", ".hpp", ".cu", ".cuh")):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                comment = re.search(r"(?:^|\s)//(.*)", line)
                for cited in CITED.findall(comment[1]) if comment else []:
                    if cited not in ends:
                        yield f"{path}:{number}: the comment names {cited}: no such file"


def stop_faults(root, name, page):
    for path, function in STOP.findall(page):
        if not os.path.exists(os.path.join(root, path)):
            yield f"{name}: {path}:{function}: no such file"
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            if not defines(file.read(), function):
                yield f"{name}: {path}:{function}: not defined there"
    for path in BARE.findall(page):
        # CLASS, X and the like stand for a name.
        if not re.search(r"\b[A-Z]+(?:[_./]|$)", path) and not os.path.exists(os.path.join(root, path)):
            yield f"{name}: {path}: no such file"


def faults(root):
    yield from comment_faults(root)
    with open(os.path.join(root, "docs", "architecture.md"), encoding="utf-8") as file:
        page = file.read()
    rows = dict(ROW.findall(page))
    for folder in folders(root):
        if folder not in rows:
            yield f"docs/architecture.md: no row for {folder}"
    for folder in rows:
        if not os.path.isdir(os.path.join(root, folder)):
            yield f"docs/architecture.md: the row {folder} has no folder"
    yield from stop_faults(root, "docs/architecture.md", page)
    with open(os.path.join(root, "CONTRIBUTING.md"), encoding="utf-8") as file:
        yield from stop_faults(root, "CONTRIBUTING.md", file.read())
    if not STOP.search(page):
        yield "docs/architecture.md: no stops"
    with open(os.path.join(root, "lib", "LAYERS"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    for above, line in zip([""] + lines, lines):
        if re.match(r"\w+:", line) and not above.startswith("# "):
            yield f"lib/LAYERS: no comment above {line.split(':')[0]}"


def main():
    found = list(faults(sys.argv[1]))
    for fault in found:
        print(fault)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
