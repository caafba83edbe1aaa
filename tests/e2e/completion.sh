#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The installed bash completion of each program completes the options and values of --help.
set -euo pipefail
build=$1
shopt -s nullglob
programs=("$build"/bin/lm-*)
n=0

# offered PROGRAM WORD...: prints bash's completions of the last word.
offered() {
    local program=$1
    # shellcheck disable=SC2016
    bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_${1//-/_}"; echo "${COMPREPLY[*]}"' \
        bash "$build/completions/$program" "$@"
}

[ ${#programs[@]} -gt 0 ] || {
    echo "no programs yet"
    exit 77
}
for path in "${programs[@]}"; do
    program=$(basename "$path")
    [[ " $(offered "$program" --) " == *" --help "* ]]
    [ "$(offered "$program" --vers)" = --version ]
    for verb in $("$path" --help | sed -n '/^Commands/,/^$/s/^  \([a-z-]*\).*/\1/p'); do
        [[ " $(offered "$program" "$verb") " == *" $verb "* ]]
        for name in $("$path" "$verb" --help | sed '/^Accepted/q' | grep -oE '^  (-., )?--[a-z0-9_-]+' | grep -oE -- '--.*'); do
            [[ " $(offered "$program" "$verb" "$name") " == *" $name "* ]]
            n=$((n + 1))
        done
    done
done
echo "$n options of verbs"
