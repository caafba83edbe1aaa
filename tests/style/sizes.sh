#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No source file is longer than 400 lines (in tests and bench: 500), each header states its purpose in its first lines, and
# enough lines of headers and of sources are comments. No line of prose in a document is longer than 130 columns; code blocks
# and tables may be. Planted faults are found.
set -euo pipefail
cd "$(dirname "$0")/../.."

# check_tree ROOT HEADERS SOURCES: prints each violation; fails on any. HEADERS, SOURCES: percent of comment lines over all
# headers and over all sources of lib and cmd.
check_tree() {
    find "$1" \( -name 'build*' -o -name '.?*' -o -name golden \) -prune -o \
        \( -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.h' -o -name '*.sh' -o -name '*.py' \) -print |
        sort | xargs awk -v headers="$2" -v sources="$3" -v prefix="$1/" '
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
            inside = substr(path, length(prefix) + 1) ~ /^(lib|cmd)\//
            is_header = inside && path ~ /\.(hpp|cuh|h)$/
            is_source = inside && path ~ /\.(cpp|cu)$/
        }
        {
            ++lines
            if (is_header) {
                ++all
                if (/\/\//) ++comments
                if (FNR <= 15 && /^\/\/ / && !/SPDX/) opened = 1
            }
            if (is_source) {
                ++all_sources
                if (/\/\//) ++source_comments
            }
        }
        END {
            close_file()
            if (all && 100 * comments < headers * all)
                report("headers: " int(100 * comments / all) " % comment lines, at least " headers " %")
            if (all_sources && 100 * source_comments < sources * all_sources)
                report("sources: " int(100 * source_comments / all_sources) " % comment lines, at least " sources " %")
            exit bad
        }'
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
    if report=$(check_tree "$planted" 20 5 && check_prose "$planted") || [[ $report != *"$1"* ]]; then
        echo "a planted fault was not found: $1"
        exit 1
    fi
}
good='// SPDX-License-Identifier: Apache-2.0\n// Reads files.\n#pragma once\n'
printf '%b' "$good" >"$planted/lib/io/a.hpp"
check_tree "$planted" 20 5
printf 'int a;%.0s\n' {1..401} >"$planted/lib/io/a.cpp"
finds "lib/io/a.cpp: 401 lines, at most 400"
rm "$planted/lib/io/a.cpp"
printf '// SPDX-License-Identifier: Apache-2.0\n#pragma once\n' >"$planted/lib/io/b.hpp"
finds "lib/io/b.hpp: its first lines do not state its purpose"
{ printf '%b' "$good" && printf 'int a;\n%.0s' {1..30}; } >"$planted/lib/io/b.hpp"
finds "headers: 11 % comment lines, at least 20 %"
rm "$planted/lib/io/b.hpp"
printf 'int a;%.0s\n' {1..30} >"$planted/lib/io/a.cpp"
finds "sources: 0 % comment lines, at least 5 %"
rm "$planted/lib/io/a.cpp"
long=$(printf '%0131d' 0)
printf '%s\n' "\`\`\`" "$long" "\`\`\`" "| $long |" >"$planted/a.md"
check_prose "$planted"
printf '%s\n' "$long" >>"$planted/a.md"
finds "a.md:5: 131 columns, at most 130"

check_tree "$PWD" 22 5
check_prose "$PWD"
echo "sizes hold"
