#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-convert on checkpoints that megatron-core wrote with its own optimizers (tests/golden/megatron): the format torch, and
# torch_dist in each form of the optimizer state, are the same checkpoint, bit for bit. The next losses are megatron-core's.
# timeout: 120
here=$(realpath "$(dirname "$0")")
golden=$(realpath "$here/../golden/megatron")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/next_losses.bash
. "$here/next_losses.bash"

for archive in "$golden"/*.tar.xz; do tar xJf "$archive"; done
for model in plain rope gpt2 llama virtual older older_llama; do
    expect 0 '' lm-convert "$model-torch" "$model" --quiet
    [ "$(jq -c '[.counters.iteration, .counters.optimizer_step]' "$model"/global_step2/manifest.json)" = '[2,2]' ] ||
        fail "$model: $(jq -c .counters "$model"/global_step2/manifest.json)"
    for form in "$model"-*/; do
        form=${form%/}
        [ "$form" != "$model-torch" ] || continue
        expect 0 '' lm-convert "$form" imported --quiet
        prints 'equal: [0-9]+ tensors, bit for bit' lm-ckpt diff "$model" imported
        [ "$(jq -c .counters imported/global_step2/manifest.json)" = "$(jq -c .counters "$model"/global_step2/manifest.json)" ] ||
            fail "$form: $(jq -c .counters imported/global_step2/manifest.json)"
        rm -r imported
    done
done
expect 0 'note: --check: perplexity' lm-convert gpt2-dp-reshardable checked --check

# --vocab-size drops padding, never tokens, and adds no rows.
for form in torch torch-dist; do
    expect 2 '--vocab-size: .* 29, .*got 28' \
        lm-convert "plain-$form" x --vocab-size 28
    expect 2 '--vocab-size: .* 32, .*got 33' lm-convert "plain-$form" x --vocab-size 33
done
nothing_under x

# next_losses MODEL FLAGS...: compares the next three losses with megatron-core's. Every batch has the same two samples.
# Megatron-core's softmax includes the padding of the vocabulary, so the padding is imported too.
next_losses() {
    local model=$1
    shift
    expect 0 '' lm-convert "$model-torch-dist" "$model-padded" --vocab-size 32 --quiet
    next_losses_equal "$model-next.json" "$model-padded" --num-layers 2 --train-iters 5 "$@"
}
next_losses plain --hidden-size 8 --num-attention-heads 2 --ffn-hidden-size 12
next_losses rope --hidden-size 16 --num-attention-heads 4 --ffn-hidden-size 12 --group-query-attention --num-query-groups 2 \
    --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
    --untie-embeddings-and-output-weights

# lm-ckpt reads the same directories.
prints '^ *2 .*tp2 pp2 .*torch_dist .*complete, latest' lm-ckpt ls gpt2-torch-dist
prints '^ *2 .*tp2 pp1 .*torch  *complete, latest' lm-ckpt ls llama-distributed
prints 'tensor_model_parallel_size  *2' lm-ckpt show gpt2-torch
[ "$(lm-ckpt show gpt2-dp-reshardable --json | jq -c '[.iteration,.optimizer_step,.format,.model.hidden_size]')" = \
    '[2,2,"torch_dist",8]' ] || fail "show: $(lm-ckpt show gpt2-dp-reshardable --json)"
for form in gpt2-torch gpt2-dp-reshardable llama-fully-reshardable; do
    prints 'ok: [0-9]+ tensors' lm-ckpt verify "$form" --quiet
done
prints 'equal: [0-9]+ tensors, bit for bit' lm-ckpt diff gpt2-torch gpt2-torch-dist
prints 'equal: [0-9]+ tensors, bit for bit' lm-ckpt diff llama llama-dp-reshardable
expect 0 '' lm-ckpt unshard gpt2-dp-reshardable a.safetensors --quiet
expect 0 '' lm-ckpt unshard gpt2 b.safetensors --quiet
cmp a.safetensors b.safetensors || fail "unshard of a checkpoint of Megatron"
expect 1 '' lm-ckpt diff gpt2 plain
cp -r gpt2-torch flipped
python3 - flipped/iter_0000002/mp_rank_01_000/model_optim_rng.pt <<'END'
import struct, sys, zipfile
record = max((i for i in zipfile.ZipFile(sys.argv[1]).infolist() if "/data/" in i.filename), key=lambda i: i.file_size)
with open(sys.argv[1], "r+b") as file:
    file.seek(record.header_offset + 26)
    at = record.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
    file.seek(at)
    byte = file.read(1)[0]
    file.seek(at)
    file.write(bytes([byte ^ 1]))
END
expect 1 '' lm-ckpt verify flipped --quiet
grep -q ' corrupt: .*CRC' out || fail "verify of a corrupt record: $(cat out)"
rm -r flipped

# Incomplete and corrupt checkpoints.
cp -r llama-torch-dist broken
rm broken/iter_0000002/__0_0.distcp
expect 3 '/__0_0.distcp: .*\.metadata' lm-convert broken x
cp llama-torch-dist/iter_0000002/__1_0.distcp broken/iter_0000002/__0_0.distcp
expect 3 'broken/iter_0000002/' lm-convert broken x
cp llama-torch-dist/iter_0000002/__0_0.distcp broken/iter_0000002/
printf 'cos\nsystem\n(S"true"\ntR.' >broken/iter_0000002/.metadata
expect 3 '/\.metadata: pickle .*byte' lm-convert broken x
printf '\x80\x04\x8c\x05posix\x8c\x06system\x93.' >broken/iter_0000002/.metadata
expect 3 '/\.metadata: .*posix\.system' lm-convert broken x
rm -r broken
# The state of another model under the name of this one: the masters do not belong to the weights.
cp -r gpt2-distributed other
cp gpt2-distributed/iter_0000002/mp_rank_00_000/distrib_optim.pt other/iter_0000002/mp_rank_01_000/
expect 3 ' other[^:]*: .*fp32 masters' lm-convert other x
nothing_under x
