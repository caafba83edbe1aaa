#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds equal names of files and of public types within one layer, and tests that are not named after a source.

usage: names.py ROOT ALLOWED

Files: the names without extension of the sources in different folders of a layer of ROOT/lib; x86 folders are exempt. Types: the
structs, classes, unions, enums and aliases of headers, in a namespace or public in a class. Two types that are nested in
different classes may have one name, since each is written with its class; a nested alias may have any name.

ALLOWED has a line for each name that stands for one subject in several folders of a layer: file|type <tab> NAME <tab> FOLDERS <tab>
REASON, with FOLDERS separated by spaces. The name in another folder is reported, and so is a line that nothing needs.

Tests: the SUBJECT of ROOT/tests/LAYER/SUBJECT_test.cpp is a source or a folder of lib/LAYER, or a helper of tests/LAYER. In
FOLDER_SUBJECT, SUBJECT is a source of that folder. Lines `test <tab> SUBJECT <tab> FOLDERS <tab> REASON` list the tests whose subject
spans several sources.
"""

import os
import re
import sys
from collections import defaultdict

SOURCES = (".hpp", ".cuh", ".h", ".cpp", ".cu")
HEADERS = (".hpp", ".cuh", ".h")
# `struct Name {`, `class Name final : public Base {`, `enum class Name : u8 {`; not `class Name;` nor a specialization.
TYPE = re.compile(r"^( *)(?:struct|class|union|enum class|enum)\s+(?:alignas\([^)]*\)\s+)?(\w+)(?: final)?\s*(?::[^;]*)?(?:\{.*)?$")
ALIAS = re.compile(r"^using (\w+) =")
ACCESS = re.compile(r"^  (public|protected|private):")


def sources(root):
    for folder, folders, files in os.walk(os.path.join(root, "lib")):
        folders.sort()
        for name in sorted(files):
            if name.endswith(SOURCES):
                yield os.path.relpath(os.path.join(folder, name), root)


def types_of(path):
    """Returns (name, is_nested) for each public type of a header. The formatter indents members of classes by 4."""
    found, outer, public = set(), None, True
    with open(path, encoding="utf-8") as file:
        for line in file:
            access = ACCESS.match(line)
            if access:
                public = access.group(1) == "public"
            alias = ALIAS.match(line)
            if alias:
                found.add((alias.group(1), False))
            match = TYPE.match(line.rstrip())
            if not match:
                continue
            indent, name = len(match.group(1)), match.group(2)
            if indent == 0:
                outer, public = name, not line.startswith("class ")
                found.add((name, False))
            elif indent == 4 and outer and public:
                found.add((name, True))
    return found


def tests_without_subject(root):
    """Returns {("test", subject): folders} for the tests whose name is not that of a source, folder or helper of their layer."""
    known = defaultdict(set)  # room: names of its sources and folders
    for top in ("lib", "tests"):
        for folder, _, files in os.walk(os.path.join(root, top)):
            parts = os.path.relpath(folder, os.path.join(root, top)).split(os.sep)
            room = known[parts[0]]
            room.update(parts[1:])
            for name in files:
                stem = name.rsplit(".", 1)[0]
                if name.endswith(SOURCES) and not stem.endswith("_test"):
                    room.update({stem, "_".join([*parts[1:], stem])})
    found = defaultdict(set)
    for folder, _, files in os.walk(os.path.join(root, "tests")):
        relative = os.path.relpath(folder, root)
        for name in files:
            if name.endswith("_test.cpp") and name.removesuffix("_test.cpp") not in known[relative.split(os.sep)[1]]:
                found[("test", name.removesuffix("_test.cpp"))].add(relative)
    return found


def main(root, allowed_path):
    folders_of_file, places_of_type = defaultdict(set), defaultdict(set)
    for path in sources(root):
        folder, name = os.path.split(path)
        layer = folder.split(os.sep)[1]
        if os.path.basename(folder) != "x86":
            folders_of_file[(layer, name.rsplit(".", 1)[0])].add(folder)
        if path.endswith(HEADERS):
            for type_name, is_nested in types_of(os.path.join(root, path)):
                places_of_type[(layer, type_name)].add((folder, path, is_nested))

    shared = defaultdict(set)
    for (_, name), folders in folders_of_file.items():
        if len(folders) > 1:
            shared[("file", name)] |= folders
    for (_, name), places in places_of_type.items():
        if len(places) > 1 and not all(is_nested for _, _, is_nested in places):
            shared[("type", name)] |= {folder for folder, _, _ in places}
    shared.update(tests_without_subject(root))

    allowed, bad = {}, False
    with open(allowed_path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#") or not line.strip():
                continue
            fields = line.rstrip("\n").split("\t")
            if len(fields) != 4 or not fields[3]:
                print(f"{allowed_path}:{number}: expected KIND, NAME, FOLDERS and REASON, separated by tabs")
                bad = True
                continue
            allowed[(fields[0], fields[1])] = set(fields[2].split())

    for key, folders in sorted(shared.items()):
        if folders - allowed.get(key, set()):
            kind, name = key
            if kind == "test":
                print(f"test {name} in {', '.join(sorted(folders))}: name it SUBJECT_test.cpp after a source of its layer")
                bad = True
                continue
            print(f"{kind} {name}: the same name in {', '.join(sorted(folders))}: name each by its subject")
            bad = True
    for key, folders in sorted(allowed.items()):
        for folder in sorted(folders - shared.get(key, set())):
            print(f"{allowed_path}: {key[0]} {key[1]} is not shared in {folder}: remove it")
            bad = True
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
