#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every relative link of the Markdown pages has an existing file and heading as its target, and every path of the tree in
# backquotes exists. Planted dead links are found.
set -euo pipefail
cd "$(dirname "$0")/../.."

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
cat >"$planted/check.py" <<'END'
import glob
import os
import re
import sys


def anchors(page):
    """Returns the anchors of a page's headings, as GitHub and GitLab build them."""
    titles = re.findall(r"^#+ (.*)$", open(page).read(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def faults(root, page):
    text = open(page).read()
    for link in re.findall(r"\]\(([^()\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(target):
            yield f"link to {link}: no such file"
        elif anchor and anchor not in anchors(target):
            yield f"link to {link}: no such heading"
    folders = "|".join(name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name)) and name != "build")
    for path in re.findall(rf"`((?:{folders})/[\w./*-]*)`", text):
        if not re.search(r"\b[A-Z]+\b", os.path.splitext(path)[0]) and not glob.glob(os.path.join(root, path)):
            yield f"`{path}`: no such file"


root, pages = sys.argv[1], sys.argv[2:]
found = [f"{page}: {fault}" for page in pages for fault in faults(root, page)]
for fault in found:
    print(fault)
sys.exit(1 if found else 0)
END

mapfile -t pages < <(git ls-files -- '*.md' 2>/dev/null || true)
[ ${#pages[@]} -gt 0 ] || mapfile -t pages < <(find . -name '*.md' -not -path './build*' -not -path './.venv*')
python3 "$planted/check.py" . "${pages[@]}"

# Tests the check with one fault at a time.
mkdir "$planted/lib"
cat >"$planted/page.md" <<'END'
# A title: of words
[here](#a-title-of-words) [there](page.md) `lib/`
END
python3 "$planted/check.py" "$planted" "$planted/page.md"
while read -r fault; do
    echo "$fault" >"$planted/other.md"
    if python3 "$planted/check.py" "$planted" "$planted/other.md" >/dev/null; then
        echo "a planted fault was not found: $fault"
        exit 1
    fi
done <<'END'
[x](gone.md)
[x](page.md#gone)
`lib/gone.cpp`
END
echo "${#pages[@]} pages"
