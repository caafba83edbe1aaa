#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-ckpt unshard: one model in one file or in several.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

lm-train --mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 24 --vocab-size 300 \
    --micro-batch-size 2 --global-batch-size 2 --train-iters 2 --lr 1e-3 --threads 1 --eval-iters 0 --bf16 \
    --save c --save-interval 2 >/dev/null 2>&1

# header FILE: prints the JSON header of a safetensors file.
header() { head -c $((8 + $(od -An -tu8 -N 8 "$1"))) "$1" | tail -c +9; }

expect 0 '' lm-ckpt unshard c m.safetensors
grep -Eq '^m.safetensors: 36 tensors, [0-9.]+ KiB$' out || fail "unshard: $(cat out)"
[ "$(header m.safetensors | jq -c '."embedding.word.weight" | [.dtype, .shape]')" = '["BF16",[300,32]]' ] ||
    fail "the vocabulary: $(header m.safetensors)"
[ "$(header m.safetensors | jq -r '.__metadata__.model | fromjson | .num_layers')" = 2 ] || fail "metadata"

expect 2 '^lm-ckpt: m.safetensors: ' lm-ckpt unshard c m.safetensors --dtype fp32
expect 0 '' lm-ckpt unshard c m.safetensors --dtype fp32 --max-shard-size 50KB --force
grep -Eq '^m.safetensors.index.json: 36 tensors, .* in [0-9]+ files$' out || fail "unshard: $(cat out)"
[ ! -e m.safetensors ] || fail "one file and several of one name"
n=$(find . -name 'm-*-of-*.safetensors' | wc -l)
[ "$(jq -r '.weight_map[]' m.safetensors.index.json | sort -u | wc -l)" = "$n" ] || fail "$n files: $(cat m.safetensors.index.json)"

# Usage errors; nothing of OUT remains.
expect 2 ' x.bin: ' lm-ckpt unshard c x.bin
expect 2 '--max-shard-size: .*1, got 0' lm-ckpt unshard c x.safetensors --max-shard-size 0
expect 3 ' x[^:]*: ' env LM_IO_FAULT=short:2 lm-ckpt unshard c x.safetensors --max-shard-size 50KB
flip c/global_step2/weights-00000.safetensors
expect 3 'weights-00000.safetensors: tensor .*checksum' lm-ckpt unshard c x.safetensors --max-shard-size 50KB
nothing_under x
echo "lm-ckpt unshard: all as promised"
