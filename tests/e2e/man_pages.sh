#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each program has a man page without warnings of mandoc, whose options are exactly those of --help-all, and
# whose prose mentions only existing options.
set -euo pipefail
build=$1
shopt -s nullglob
cd "$(dirname "$0")/../.."
programs=("$build"/bin/lm-*)
[ ${#programs[@]} -gt 0 ] || {
    echo "no programs yet"
    exit 77
}
bad=0
for program in "${programs[@]}"; do
    lines=$(COLUMNS=80 "$program" --help | wc -l)
    [ "$lines" -le 150 ] || {
        echo "$(basename "$program") --help has $lines lines: describe_only() fewer options"
        bad=1
    }
    if COLUMNS=80 "$program" --help | grep -E '^.{81}' | grep -v '^  --'; then
        echo "$(basename "$program") --help has the lines above, wider than 80 columns"
        bad=1
    fi
    page=$build/man/$(basename "$program").1
    if [ ! -e "$page" ]; then
        echo "$(basename "$program"): no man page: write man/$(basename "$program").1.in"
        bad=1
        continue
    fi
    mandoc -T lint -W warning "$page" || bad=1
    python3 tests/man/check_page.py "$build/bin" "$program" "$page" || bad=1
done
for page in "$build"/man/*.7; do
    mandoc -T lint -W warning "$page" || bad=1
done
# The header and footer of a page are right with groff, too, which prints "BSD" there by default.
version=$(sed -n 's/^project(.* VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
for page in "$build"/man/lm-*.[17]; do
    name=$(basename "$page")
    for render in "mandoc -T ascii" "groff -mdoc -T ascii -P -c"; do
        text=$($render "$page" 2>/dev/null | sed 's/.\x08//g')
        if ! grep -qiE "^${name%.*}\(${name##*.}\) +(General Commands|Miscellaneous Information) Manual +" <<<"$text" ||
            ! grep -q "^lm-utils $version  .*  lm-utils $version$" <<<"$text"; then
            echo "$page, by $render: header or footer: $(sed -n '1p;$p' <<<"$text")"
            bad=1
        fi
    done
done
[ $bad = 0 ] || exit 1
echo "${#programs[@]} pages"
