#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""offered_by_zsh.py FOLDER COMMAND-LINE: prints the words that zsh offers after the command line, with FOLDER in $fpath."""
import os
import pty
import re
import select
import sys

folder, text = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(TERM="dumb", COLUMNS="200", LINES="200")
    os.execvp("zsh", ["zsh", "-f", "-i"])


unread = ""


def read_until(end):
    """Returns what the terminal prints up to `end`."""
    global unread
    while end not in unread and select.select([terminal], [], [], 20)[0]:
        try:
            unread += os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            break
    seen, _, unread = unread.partition(end)
    return seen


setup = f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; PS1=; bindkey '^Y' list-choices; LISTMAX=0; print rea''dy\n"
os.write(terminal, setup.encode())
read_until("ready\r\n")
read_until("\x1b[?2004h")                    # the line editor reads keys
os.write(terminal, text.encode() + b"\x19")  # ^Y lists the choices
os.write(terminal, b"\x15print en''d\n")     # ^U deletes the line
listed = read_until("end\r\n")
os.close(terminal)
lines = listed.split("\r\n")[1:]
lines = lines[:next((i for i, line in enumerate(lines) if line.startswith(text.split()[0])), 0)]
words = [word for line in lines for word in re.sub(r" +-- .*", "", line).split()]
print(*sorted(words))
