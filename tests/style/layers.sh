#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A layer includes only headers of the layers that lib/LAYERS allows, and a folder of a layer only headers of the folders that it
# allows. Neither has a circle. Planted violations are found.
set -euo pipefail
cd "$(dirname "$0")/../../lib"

# check_tree LIB: prints each violation of LIB/LAYERS; fails on any.
check_tree() (
    cd "$1"
    declare -A allowed used
    arrows=
    bad=0
    report() {
        echo "$1"
        bad=1
    }
    while IFS=: read -r folder uses; do
        allowed[$folder]=" $folder $uses "
        [ -d "$folder" ] || report "lib/LAYERS: $folder: no such folder"
        for use in $uses; do arrows+="$folder $use"$'\n'; done
    done < <(grep -vE '^(#|$)' LAYERS)
    circle=$(tsort <<<"$arrows" 2>&1 >/dev/null | sed -n 's/^tsort: \([^ :]*\)$/\1/p' | tr '\n' ' ')
    [ -z "$circle" ] || report "lib/LAYERS: a circle: $circle"
    while IFS=: read -r file line include; do
        [[ $include =~ include\ *\"([^\"]+)/ ]] || continue # a file of the same folder, or a generated one
        from=${file%/*} to=${BASH_REMATCH[1]}
        # Another layer is allowed for all folders of a layer.
        [ "${from%%/*}" = "${to%%/*}" ] || from=${from%%/*} to=${to%%/*}
        [[ ${allowed[$from]-} == *" $to "* ]] || report "lib/$file:$line: $from must not include $to (lib/LAYERS)"
        used[$from $to]=1
    done < <(grep -rnE '^ *# *include *"' --include='*.cpp' --include='*.hpp' --include='*.cu' \
        --include='*.cuh' -- */)
    while read -r folder use; do
        [ -z "$folder" ] || [ -n "${used[$folder $use]-}" ] || report "lib/LAYERS: $folder: includes nothing of $use"
    done <<<"$arrows"
    while read -r folder; do
        [ -n "${allowed[$folder]-}" ] || report "lib/$folder/: not in lib/LAYERS"
    done < <(find . -mindepth 1 -type d -printf '%P\n' | sort)
    return $bad
)

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
check_tree .

# Tests the check on a tree with one fault at a time.
tree=$planted/lib
reset() {
    rm -rf "$tree"
    mkdir -p "$tree/base" "$tree/io/codec"
    printf '# Types.\nbase:\n# Files.\nio: base\nio/codec: io\n' >"$tree/LAYERS"
    echo '#include "base/error.hpp"' >"$tree/io/codec/file.cpp"
    echo '#include "io/file.hpp"' >>"$tree/io/codec/file.cpp"
}
finds() {
    local report
    if report=$(check_tree "$tree") || [[ $report != *"$1"* ]]; then
        echo "a planted violation was not found: $1"
        exit 1
    fi
    reset
}
reset
check_tree "$tree"
echo '#include "io/file.hpp"' >"$tree/base/error.cpp"
finds "lib/base/error.cpp:1: base must not include io"
echo '#include "io/codec/codec.hpp"' >"$tree/base/error.cpp"
finds "lib/base/error.cpp:1: base must not include io"
echo '#include "io/codec/codec.hpp"' >"$tree/io/file.cpp"
finds "lib/io/file.cpp:1: io must not include io/codec"
mkdir "$tree/misc"
finds "lib/misc/: not in lib/LAYERS"
mkdir "$tree/io/codec/x86"
finds "lib/io/codec/x86/: not in lib/LAYERS"
sed -i 's/^io: base$/io: base misc/; s/^base:$/base:\nmisc:/' "$tree/LAYERS" && mkdir "$tree/misc"
finds "lib/LAYERS: io: includes nothing of misc"
rmdir "$tree/base"
finds "lib/LAYERS: base: no such folder"
sed -i 's/^io: base$/io: base io\/codec/' "$tree/LAYERS"
finds "lib/LAYERS: a circle: io"
sed -i 's/^base:$/base: io/' "$tree/LAYERS"
finds "lib/LAYERS: a circle: "
echo "the layers hold"
