#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds Views without a comment that states their shape and dtype, `// [R, C] fp32`.

usage: shapes.py FILE...

A declaration is documented by the comment above it, and by the comments on its own lines. A comment also covers the
declarations that follow it, until the next comment line or an empty line.
 - A member needs a shape and a dtype, also in a container (std::vector<View>) or with an initializer. "same shape as x" refers
   to another member, and only a comment on the member itself counts: `View y;  // [N] fp32`.
 - A function that takes or returns Views needs a shape and a dtype, and its comment names each View parameter.
Functions are documented where they are declared first: overriding functions in the base class, and in a header the functions
of a source that are named `Class::f` or that a header it includes declares with the same arguments.
Inside a body only a local View without an initializer needs the comment.
"""

import os
import re
import sys

DTYPE = r"(compute|fp64|fp32|bf16|fp16|int64|int32|uint8|any dtype|same dtype)"
SHAPE = re.compile(r"\[[^\]]*\].*?\b" + DTYPE + r"\b|\bsame shape as\b", re.S)
VIEW = re.compile(r"\b(?:device::)?View\b(?!\()")
PARAMETER = re.compile(r"\b(?:device::)?View\b[>&\s]*(\w+)\s*(?=[,)=])")


def statements(lines):
    """Yields (first line, code, comment above, own comments) for each declaration, up to its ; or {."""
    above, code, own, first = [], "", [], 0
    fresh = False  # the last line was a comment line
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not code and text == "}":
            continue
        if not code and (not text or text.startswith(("}", "#"))):
            above, fresh = [], False
            continue
        if not code and text.startswith("//"):
            if not fresh:
                above = []
            above.append(text.lstrip("/").strip())
            fresh = True
            continue
        bare, slashes, comment = text.partition("//")
        if not code:
            first = number
        code += " " + bare.strip()
        if slashes:
            own.append(slashes + comment)
        if bare.rstrip().endswith((";", "{", "}", ":")) or (not bare.strip() and code.strip() == ""):
            yield first, code.strip(), " ".join(above), " ".join(own)
            # The lines of a body have comments of their own.
            code, own, fresh = "", [], False


def is_function(code):
    """True for `View f(const View& x)`: the first parenthesis is not in an initializer."""
    head = re.split(r"[={]", code, maxsplit=1)[0]
    return "(" in head


def read_lines(path):
    """Returns the lines of a file, with empty lines for macros."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    macro = r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"
    return re.sub(macro, lambda m: m[0] if "\\\n" not in m[0] else "\n" * m[0].count("\n"), text, flags=re.M).split("\n")


def lines_in_bodies(lines):
    """Returns the numbers of the lines that begin inside the body of a function or inside an initializer."""
    inside, scopes, head = set(), [], ""
    for number, line in enumerate(lines, 1):
        if "body" in scopes:
            inside.add(number)
        if line.lstrip().startswith("#"):
            continue
        for char in re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//.*', "", line) + " ":
            if char == "{":
                is_type = re.search(r"\b(namespace|struct|class|union|enum|extern)\b", head) and "(" not in head
                scopes.append("type" if is_type else "body")
            elif char == "}" and scopes:
                scopes.pop()
            head = "" if char in "{};" else head + char
    return inside


def signature(code):
    """Returns `name(type name, ...)` of a function without spaces, namespaces and default arguments."""
    found = re.search(r"([\w:]+)\((.*)\)", re.split(r"\)\s*(?:const\s*)?[{;:]", code)[0] + ")", re.S)
    if not found:
        return ""
    arguments = re.sub(r"\s*=\s*[^,]*", "", found[2])
    return re.sub(r"\w+::|\s", "", found[1] + "(" + arguments)


def declared_in_headers(path, lines):
    """Returns the signatures in the headers that a source includes, found relative to a folder above it."""
    found = set()
    for line in lines:
        header = re.match(r'#include "([^"]+)"', line)
        folder = os.path.dirname(os.path.abspath(path))
        while header and folder != "/":
            if os.path.isfile(os.path.join(folder, header[1])):
                inner = read_lines(os.path.join(folder, header[1]))
                found.update(signature(code) for _, code, _, _ in statements(inner) if VIEW.search(code) and is_function(code))
                break
            folder = os.path.dirname(folder)
    return found


def check(path):
    found = []
    lines = read_lines(path)
    is_source = path.endswith((".cpp", ".cu"))
    bodies = lines_in_bodies(lines) if is_source else set()
    declared = declared_in_headers(path, lines) if is_source else set()
    for line, code, above, own in statements(lines):
        if line in bodies and not re.match(r"(const )?(device::)?View \w+(, \w+)*;", code):
            continue
        if is_source and is_function(code) and (re.search(r"^[^(]*\w::~?\w+\(", code) or signature(code) in declared):
            continue
        if not VIEW.search(code) or re.search(r"\bstruct View\b|^using |\boverride\b|^(for|if|return|while)\b", code):
            continue
        if is_function(code):
            head = code.split("{")[0] if not re.search(r"\{\}\s*[,)]", code) else code
            if not VIEW.search(head):
                continue
            text = above + " " + own
            if not SHAPE.search(text):
                found.append((line, head, "without shape and dtype"))
                continue
            for name in PARAMETER.findall(head):
                if not re.search(rf"\b{name}\b", text):
                    found.append((line, head, f"the comment does not name {name}"))
        elif not SHAPE.search(own) and not SHAPE.search(above):
            found.append((line, code, "without shape and dtype"))
    return [f"{path}:{line}: {' '.join(code.split())[:90]}: {problem}" for line, code, problem in found]


if __name__ == "__main__":
    problems = [problem for path in sys.argv[1:] for problem in check(path)]
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(1 if problems else 0)
