#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The installed bash completion of each program completes the options and values of --help-all.
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
    for verb in $("$path" --help-all | sed -n '/^Commands/,/^$/s/^  \([a-z-]*\).*/\1/p'); do
        [[ " $(offered "$program" "$verb") " == *" $verb "* ]]
        for name in $("$path" "$verb" --help-all | sed '/^Accepted/q' | grep -oE '^  (-., )?--[a-z0-9_-]+' | grep -oE -- '--.*'); do
            [[ " $(offered "$program" "$verb" "$name") " == *" $name "* ]]
            n=$((n + 1))
        done
    done
done
echo "$n options of verbs"

# bash completes the steps of a directory, and offers no files for a number.
in_run() { (cd "$work" && offered "$@"); }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=$(realpath "$build")
mkdir -p "$work/run"/global_step{10,20}
[ "$(in_run lm-ckpt latest run '')" = "10 20" ]
[ "$(in_run lm-ckpt latest '')" = run ]
[ -z "$(in_run lm-ckpt reshard --pipeline-model-parallel-size '')" ]

# zsh and fish, if installed: commands, options, choices, prefixes of datasets, steps.
touch "$work"/web_text_document.{bin,idx}
here=$(cd "$(dirname "$0")" && pwd)
in_zsh() { python3 "$here/offered_by_zsh.py" "$build/completions" "$1"; }
in_fish() { fish -c "source '$build/completions/${1%% *}.fish'; complete -C '$1'" | cut -f 1 | sort | tr '\n' ' '; }
for shell in zsh fish; do
    command -v $shell >/dev/null || {
        echo "$shell is not installed"
        continue
    }
    cd "$work"
    check() {
        local offered
        offered=" $("in_$shell" "$1") "
        for word in "${@:2}"; do
            [[ $offered == *" $word "* ]] || {
                echo "$shell: '$1' offers $offered, without $word"
                exit 1
            }
        done
    }
    check 'lm-ckpt l' ls latest
    check 'lm-ckpt prune --keep-' --keep-last --keep-every
    check 'lm-ckpt unshard --dtype ' fp32 bf16 fp16
    check 'lm-ckpt latest run ' 10 20
    [[ "$("in_$shell" 'lm-ckpt latest run ' | tr '\n' ' ')" =~ ^10\ 20\ *$ ]]
    [[ "$("in_$shell" 'lm-ckpt reshard --pipeline-model-parallel-size ')" =~ ^\ *$ ]]
    check 'lm-preprocess cat web' web_text_document
    check 'lm-estimate params --moda' # nothing, and no error
    [ ! -x "$build/bin/lm-train" ] || check 'lm-train --data-order ' stateless megatron megatron-deepspeed
done
