#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A layer includes only headers of the layers that lib/LAYERS allows. Planted violations are found.
set -euo pipefail
cd "$(dirname "$0")/../../lib"

# check_tree LIB: prints each violation of LIB/LAYERS; fails on any.
check_tree() (
    cd "$1"
    declare -A allowed
    while IFS=: read -r layer uses; do
        allowed[$layer]=" $layer $uses "
    done < <(grep -vE '^(#|$)' LAYERS)
    bad=0
    while IFS=: read -r file line include; do
        from=${file%%/*}
        [[ $include =~ include\ *\"([^\"/]+)(/?) ]] || continue
        [ -n "${BASH_REMATCH[2]}" ] || continue # a file of the same folder, or a generated one
        to=${BASH_REMATCH[1]}
        if [[ ${allowed[$from]-} != *" $to "* ]]; then
            echo "lib/$file:$line: $from must not include $to (lib/LAYERS)"
            bad=1
        fi
    done < <(grep -rnE '^ *# *include *"' --include='*.cpp' --include='*.hpp' --include='*.cu' \
        --include='*.cuh' -- */)
    for folder in */; do
        if [ -z "${allowed[${folder%/}]-}" ]; then
            echo "lib/$folder: not in lib/LAYERS"
            bad=1
        fi
    done
    return $bad
)

check_tree .

# Tests the check on a tree with one fault at a time.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
finds() {
    local report
    if report=$(check_tree "$planted") || [[ $report != *"$1"* ]]; then
        echo "a planted violation was not found: $1"
        exit 1
    fi
}
cp LAYERS "$planted"
mkdir "$planted/base" "$planted/io"
echo '#include "base/error.hpp"' >"$planted/io/file.cpp"
check_tree "$planted"
echo '#include "io/file.hpp"' >"$planted/base/error.cpp"
finds "lib/base/error.cpp:1: base must not include io"
rm "$planted/base/error.cpp"
mkdir "$planted/misc"
finds "lib/misc/: not in lib/LAYERS"
echo "the layers hold"
