#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each header states its purpose in its first lines. No source is longer than 800 lines, tables of data excepted: a file of that
# length has more than one subject. No line of prose in a document is longer than 130 columns; code blocks and tables may be.
# Planted faults are found.
set -euo pipefail
cd "$(dirname "$0")/../.."

# check_tree ROOT: prints each violation; fails on any.
check_tree() {
    find "$1" \( -name 'build*' -o -name '.?*' -o -name golden \) -prune -o \
        \( -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.h' -o -name '*.sh' -o -name '*.py' \) -print |
        sort | xargs awk -v prefix="$1/" '
        function close_file() {
            if (path == "") return
            if (lines > 800 && !is_table) report(name ": " lines " lines, at most 800")
            if (is_header && !opened) report(name ": its first lines do not state its purpose")
        }
        function report(text) { print text; bad = 1 }
        FNR == 1 {
            close_file()
            path = FILENAME; name = substr(path, length(prefix) + 1); opened = 0; lines = 0; is_table = 0
            is_header = name ~ /^(lib|cmd)\/.*\.(hpp|cuh|h)$/
        }
        /^\/\/ .*[Gg]enerated by/ { is_table = 1 }
        { ++lines }
        is_header && FNR <= 15 && /^\/\/ / && !/SPDX/ { opened = 1 }
        END { close_file(); exit bad }'
}

# check_prose ROOT: prints each line of prose in the documents of ROOT that is too long; fails on any. In the C locale awk reads
# bytes, so the continuation bytes of UTF-8 are removed before counting.
check_prose() {
    # shellcheck disable=SC2016  # $0 and $1 are fields of awk
    find "$1" \( -name 'build*' -o -name '.?*' \) -prune -o -name '*.md' -print | sort | LC_ALL=C xargs awk -v prefix="$1/" -v fence="\`\`\`" '
        FNR == 1 { code = 0 }
        index($1, fence) == 1 { code = !code }
        code || /^ *\|/ || /^    / { next }
        {
            line = $0
            gsub(/[\200-\277]/, "", line)
            if (length(line) <= 130) next
            print substr(FILENAME, length(prefix) + 1) ":" FNR ": " length(line) " columns, at most 130"
            bad = 1
        }
        END { exit bad }'
}

# Tests the check on a tree with one fault at a time.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted/lib/io"
# finds TEXT: the check of the planted tree reports TEXT.
finds() {
    local report
    if report=$(check_tree "$planted" && check_prose "$planted") || [[ $report != *"$1"* ]]; then
        echo "a planted fault was not found: $1"
        exit 1
    fi
}
printf '// SPDX-License-Identifier: Apache-2.0\n// Reads files.\n#pragma once\n' >"$planted/lib/io/a.hpp"
check_tree "$planted"
printf 'int a;%.0s\n' {1..801} >"$planted/lib/io/a.cpp"
finds "lib/io/a.cpp: 801 lines, at most 800"
rm "$planted/lib/io/a.cpp"
printf '// SPDX-License-Identifier: Apache-2.0\n#pragma once\n' >"$planted/lib/io/b.hpp"
finds "lib/io/b.hpp: its first lines do not state its purpose"
rm "$planted/lib/io/b.hpp"
long=$(printf '%0131d' 0)
printf '%s\n' "\`\`\`" "$long" "\`\`\`" "| $long |" >"$planted/a.md"
check_prose "$planted"
printf '%s\n' "$long" >>"$planted/a.md"
finds "a.md:5: 131 columns, at most 130"

check_tree "$PWD"
check_prose "$PWD"
echo "sizes hold"
