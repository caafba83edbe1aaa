#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh does what README.md states: it trains a model in two parts, verifies and converts it, and prints texts that it writes.
# labels: proof
# timeout: 1800
root=$(realpath "$(dirname "$0")/../..")
# shellcheck source=tests/e2e/common.bash
. "$root/tests/e2e/common.bash"

# The build states where its progress is, and install-deps why it makes .cudnn. In this copy of the tree all packages are
# installed, pip has no index, and the build fails.
mkdir -p tree/tools fake/bin
cp "$root/demo.sh" tree/
cp "$root/tools/install-deps" tree/tools/
printf '#!/bin/sh\ncase $* in --build*) exit 1 ;; esac\n' >fake/bin/cmake
printf '#!/bin/sh\necho installed\n' >fake/bin/dpkg-query
printf '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.48"\n' >fake/bin/nvcc
chmod +x fake/bin/*
expect 1 'demo.sh: .*build/build.log' env PATH="$PWD/fake/bin:$PATH" CUDACXX="$PWD/fake/bin/nvcc" PIP_NO_INDEX=1 tree/demo.sh
grep -q "^progress: tail -f $PWD/tree/build/build.log$" out || fail "no progress: $(cat out)"
grep -q '^install-deps: .*cudnn.*nvcc.*nvidia-cudnn-frontend' err || fail "$(cat err)"

make_corpus corpus.jsonl 2000
expect 0 '' "$root/demo.sh" --bin "$bin" --dir run --seconds 1 corpus.jsonl
grep -q '^lm-train ended with 75: saved, run again$' out || fail "no stop: $(cat out)"
for when in before after; do [ "$(grep -c "^$when: " out)" = 3 ] || fail "no texts $when: $(tail -n 60 out)"; done
[ "$(grep -cE '^ +[0-9]+ s  [A-Z]' out)" = 7 ] || fail "no times of the parts: $(tail -n 40 out)"
steps=$(lm-ckpt ls --json run/checkpoints | jq -s 'map(.step) | sort | join(" ")')
[ "$steps" = '"80 160"' ] || fail "steps: $steps"
for file in hf/config.json hf/model.safetensors train.log; do [ -s "run/$file" ] || fail "no $file"; done
# The model has learned: fewer bits for unseen documents.
bits() { sed -n "/^Bits per byte/,/^$/s/^  $1 the training  *//p" out; }
awk -v a="$(bits before)" -v b="$(bits after)" 'BEGIN { exit !(b > 0 && b < a / 2) }' || fail "bits: $(bits before), $(bits after)"
expect 2 ' --nothing' "$root/demo.sh" --nothing
echo "demo: bits per byte $(bits before) before, $(bits after) after"
