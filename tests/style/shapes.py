#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds Views in headers without a comment that states their shape and dtype, `// [R, C] fp32`.

usage: shapes.py HEADER...

A declaration is documented by the comment above it, and by the comments on its own lines. A comment also covers the
declarations that follow it, until the next comment line or an empty line.
 - A member needs a shape and a dtype, also in a container (std::vector<View>) or with an initializer. "same shape as x" refers
   to another member, and only a comment on the member itself counts: `View y;  // [N] fp32`.
 - A function that takes or returns Views needs a shape and a dtype, and its comment names each View parameter.
Overriding functions are documented where they are declared first.
"""

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


def check(path):
    found = []
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for line, code, above, own in statements(lines):
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
