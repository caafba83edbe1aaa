#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds banned phrases in comments, messages and documents.

usage: language.py ROOT PHRASES

PHRASES has a line for each phrase: REGEX <tab> REPLACEMENT <tab> WHERE, with WHERE one of comments, messages (string
literals: messages, help texts, test names), docs and all. A regex ignores case unless it has an upper-case letter.
"""

import io
import os
import re
import sys
import tokenize

SKIPPED = {"build", ".git", ".venv", ".venv-megatron", "demo-run", "demo_run", "golden", "shared"}
# They quote the phrases.
QUOTING = {"docs/style.md", "tests/style/language.py", "tests/style/language.sh", "tests/style/language.tsv"}
KINDS = {
    "comments": {"comment"},
    "messages": {"message"},
    "docs": {"doc"},
    "all": {"comment", "message", "doc"},
}


class Text:
    """A run of text of one kind. `lines` maps offsets of the text to lines of the file."""

    def __init__(self, kind):
        self.kind = kind
        self.text = ""
        self.lines = []
        self.last = 0

    def add(self, words, line, separator=" "):
        if self.text:
            self.text += separator
        self.lines.append((len(self.text), line))
        self.text += words
        self.last = line

    def line_of(self, offset):
        line = self.lines[0][1]
        for start, at in self.lines:
            if start <= offset:
                line = at
        return line


CPP = re.compile(
    r"""//(?P<line>[^\n]*)
      | /\*(?P<block>.*?)\*/
      | R"(?P<tag>[^(\s]*)\((?P<raw>.*?)\)(?P=tag)"
      | "(?P<string>(?:[^"\\\n]|\\.)*)"
      | '(?:[^'\\\n]|\\.)+'
      | [0-9][0-9a-fA-F.xX]*(?:'[0-9a-fA-F]+)+
      | \n""",
    re.X | re.S,
)


def cpp_texts(source):
    """Comments and string literals of C++ and CUDA. Adjoining lines of comment and adjoining literals are one text."""
    texts, comment, message, end, number = [], None, None, 0, 1
    source = re.sub(r'^[ ]*#[ ]*include .*', "", source, flags=re.M)

    def started(kind):
        text = Text(kind)
        texts.append(text)
        return text

    line_start = True
    for match in CPP.finditer(source):
        between = source[end : match.start()]
        number += between.count("\n")
        if between.strip():
            line_start = False
            message = None
        end = match.end()
        if match.group() == "\n":
            number += 1
            line_start = True
            continue
        if match.group("line") is not None:
            if not (comment and line_start and comment.last == number - 1):
                comment = started("comment")
            comment.add(match.group("line").strip(), number)
        elif match.group("block") is not None:
            comment = started("comment")
            for offset, line in enumerate(match.group("block").split("\n")):
                comment.add(line.strip(" *"), number + offset)
            comment = None
        elif match.group("raw") is not None or match.group("string") is not None:
            raw = match.group("raw")
            words = match.group("string") if raw is None else raw
            if message is None:
                message = started("message")
            if raw is None:
                message.add(re.sub(r"\\n", " ", words), number, "")
            else:
                for offset, line in enumerate(words.split("\n")):
                    message.add(line, number + offset)
            line_start = False
        number += match.group().count("\n")
    return texts


def hash_texts(source):
    """Comments of shell, Python and CMake: # at the start of a line or after a space."""
    texts, comment = [], None
    for number, line in enumerate(source.split("\n"), 1):
        whole = re.match(r"\s*#(?!!)(.*)", line)
        tail = re.search(r"\s#\s(.*)", line)
        if whole:
            if not (comment and comment.last == number - 1):
                comment = Text("comment")
                texts.append(comment)
            comment.add(whole.group(1).strip(), number)
        elif tail:
            text = Text("comment")
            text.add(tail.group(1), number)
            texts.append(text)
    return texts


def plain_texts(source):
    """Paragraphs of Markdown and of manual pages; quotation marks and backquotes stay."""
    texts, paragraph = [], None
    for number, line in enumerate(source.split("\n"), 1):
        words = line.strip()
        if not words or words.startswith(("|", ".SH", ".TP", ".PP")):
            paragraph = None
        if words:
            if paragraph is None:
                paragraph = Text("doc")
                texts.append(paragraph)
            paragraph.add(re.sub(r"\\f[A-Z]|^\.[A-Z]{1,2} ", "", words), number)
    return texts


def python_texts(source):
    """Comments and docstrings; other string literals as messages, without the fields of f-strings."""
    texts, comment = [], None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            if not (comment and comment.last == line - 1):
                comment = Text("comment")
                texts.append(comment)
            comment.add(token.string.lstrip("# "), line)
        elif token.type == tokenize.STRING:
            docstring = token.string.startswith('"""')
            text = Text("comment" if docstring else "message")
            texts.append(text)
            for offset, words in enumerate(token.string.strip('"').split("\n")):
                text.add(re.sub(r"\{[^{}]*\}", "", words.strip()), line + offset)
    return texts


def reader_of(path, head):
    name = os.path.basename(path)
    if name.endswith((".cpp", ".hpp", ".cu", ".cuh", ".h")):
        return cpp_texts
    if name.endswith(".py") or head.startswith("#!/usr/bin/env python3"):
        return python_texts
    if name.endswith((".sh", ".bash", ".sbatch", ".cmake")) or name in ("CMakeLists.txt", "LAYERS") or head.startswith("#!"):
        return hash_texts
    if name.endswith((".md", ".1.in")):
        return plain_texts
    return None


def texts_of(path, source):
    reader = reader_of(path, source[:40])
    return reader(source) if reader else []


def files(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith((".", "build")))
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), root)


def phrases(path):
    for line in open(path, encoding="utf-8"):
        if line.strip() and not line.startswith("#"):
            pattern, replacement, where = line.rstrip("\n").split("\t")
            flags = 0 if re.search(r"(?<!\\)[A-Z]", pattern) else re.I
            yield re.compile(pattern, flags), replacement, KINDS[where]


def main():
    root, table = sys.argv[1:3]
    banned = list(phrases(table))
    found = checked = 0
    for path in files(root):
        if path in QUOTING:
            continue
        try:
            source = open(os.path.join(root, path), encoding="utf-8").read()
        except UnicodeDecodeError:
            continue
        checked += 1
        for text in texts_of(path, source):
            for pattern, replacement, kinds in banned:
                if text.kind not in kinds:
                    continue
                for match in pattern.finditer(text.text):
                    found += 1
                    print(f'{path}:{text.line_of(match.start())}: "{match.group()}": write {replacement}')
    print(f"{checked} files, {len(banned)} phrases" if not found else f"{found} banned phrases")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
