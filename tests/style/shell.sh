#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No warning of shellcheck for any shell script, no script pipes into grep -q, and every Python script parses.
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t files < <(grep -rlE --exclude-dir={.git,'.venv*','build*',demo-run} -m1 '^#!/usr/bin/env bash' .)
shellcheck -x "${files[@]}"
# Under pipefail `command | grep -q` fails sometimes: grep exits at the first match and SIGPIPE ends the command.
if grep -nE '[|] *grep -[a-zA-Z]*q' "${files[@]}" | grep -vE ':[0-9]+: *#'; then
    echo "pipes into grep -q: use grep -q PATTERN <<<\"\$(command)\""
    exit 1
fi
mapfile -t files < <(grep -rlE --exclude-dir={.git,'.venv*','build*',demo-run} -m1 '^#!/usr/bin/env python3' .)
for file in "${files[@]}"; do
    python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$file"
done
echo "clean"
