#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
# Every command line in the EXAMPLES of the man pages and of --help succeeds, in a directory with small data.
set -euo pipefail
build=$1
cd "$(dirname "$0")/../.."
shopt -s nullglob
sources=()
for source in man/lm-*.1.in; do
    program=$(basename "$source" .1.in)
    [ -x "$build/bin/$program" ] || continue
    # These examples work on checkpoints and logs of a training.
    [[ $program != lm-ckpt && $program != lm-convert ]] || [ -x "$build/bin/lm-train" ] || continue
    sources+=("$source")
done
if [ ${#sources[@]} = 0 ]; then
    echo "no pages yet"
    exit 77
fi
[ ! -x "$build/bin/lm-train" ] || sources+=(man/lm-operations.7.in)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PATH=$build/bin:$PATH
tests/man/prepare_examples.sh "$scratch" "$PWD/share/tokenizers/gpt2"
python3 tests/man/run_examples.py "$scratch" "${sources[@]}"
[ ! -x "$build/bin/lm-train" ] || {
    rm -rf "${scratch:?}"/*
    tests/man/prepare_examples.sh "$scratch" "$PWD/share/tokenizers/gpt2"
    python3 tests/man/help_examples.py "$build/bin" "$scratch"
}
