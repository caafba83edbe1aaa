#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No source file is longer than 400 lines (tests: 500), each header states its purpose in its first lines, and
# enough lines of the headers are comments. Planted faults are found.
set -euo pipefail
cd "$(dirname "$0")/../.."

# check_tree ROOT SHARE: prints each violation; fails on any. SHARE: percent of comment lines over all headers.
check_tree() {
    find "$1" \( -name 'build*' -o -name '.?*' -o -name golden \) -prune -o \
        \( -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.h' -o -name '*.sh' -o -name '*.py' \) -print |
        sort | xargs awk -v share="$2" -v prefix="$1/" '
        function close_file() {
            if (path == "") return
            name = substr(path, length(prefix) + 1)
            limit = name ~ /^(tests|bench)\// ? 500 : 400
            if (lines > limit) report(name ": " lines " lines, at most " limit)
            if (is_header && !opened) report(name ": its first lines do not state its purpose")
        }
        function report(text) { print text; bad = 1 }
        FNR == 1 {
            close_file()
            path = FILENAME; opened = 0; lines = 0
            is_header = path ~ /\.(hpp|cuh|h)$/ && path !~ /\/tests\//
        }
        {
            ++lines
            if (is_header) {
                ++all
                if (/\/\//) ++comments
                if (FNR <= 15 && /^\/\/ / && !/SPDX/) opened = 1
            }
        }
        END {
            close_file()
            if (all && 100 * comments < share * all)
                report("headers: " int(100 * comments / all) " % comment lines, at least " share " %")
            exit bad
        }'
}

# The check itself, on a tree with one fault at a time.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted/lib/io"
# finds TEXT: the check of the planted tree reports TEXT.
finds() {
    local report
    if report=$(check_tree "$planted" 20) || [[ $report != *"$1"* ]]; then
        echo "a planted fault was not found: $1"
        exit 1
    fi
}
good='// SPDX-License-Identifier: Apache-2.0\n// Reads files.\n#pragma once\n'
printf '%b' "$good" >"$planted/lib/io/a.hpp"
check_tree "$planted" 20
printf 'int a;%.0s\n' {1..401} >"$planted/lib/io/a.cpp"
finds "lib/io/a.cpp: 401 lines, at most 400"
rm "$planted/lib/io/a.cpp"
printf '// SPDX-License-Identifier: Apache-2.0\n#pragma once\n' >"$planted/lib/io/b.hpp"
finds "lib/io/b.hpp: its first lines do not state its purpose"
{ printf '%b' "$good" && printf 'int a;\n%.0s' {1..30}; } >"$planted/lib/io/b.hpp"
finds "headers: 11 % comment lines, at least 20 %"

check_tree "$PWD" 20
echo "sizes hold"
