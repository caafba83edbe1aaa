#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures saves and loads of checkpoints of 4.26 GB, and in the same run the lower bounds that the disk sets.
# bench/checkpoint.sh [DIR]; needs an idle machine, 5 GB of memory and 20 GB of free space in DIR (by default .).
# Environment, with defaults: BUILD (build/release), ROUNDS (1), LAYERS (24). LAYERS=50 gives checkpoints of 8.2 GB and needs
# twice the memory and space.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
work=$(mktemp -d -p "${1:-.}" bench-checkpoint.XXXXXX)
trap 'rm -rf "$work"' EXIT
cmake --build "$build" --target checkpoint_speed lm-ckpt >/dev/null
for _ in $(seq "${ROUNDS:-1}"); do
    "$build/bench/checkpoint_speed" "$work" "$build/bin" "${LAYERS:-24}"
done
