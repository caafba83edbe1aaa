#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-convert on Megatron files that store no arguments (tests/golden/megatron/make_release.py): with the flags of the model, each
# layout of query, key and value gives the weights of transformers' model, bit for bit; without them all missing flags are named.
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"

tar xJf "$here/../golden/megatron/release.tar.xz"
sizes=(--num-layers 2 --hidden-size 16 --num-attention-heads 4 --max-position-embeddings 12)
expect 0 '' lm-convert release-hf wanted --dtype fp16 --quiet
for form in release-version*; do
    expect 0 '' lm-convert "$form" imported "${sizes[@]}" --vocab-size 29 --quiet
    prints 'equal: 36 tensors, bit for bit' lm-ckpt diff wanted imported
    [ "$(jq -c '[.counters.iteration, .model.seq_length, .model.activation]' imported/global_step0/manifest.json)" = \
        '[0,12,"gelu_tanh"]' ] || fail "$form: $(jq -c .model imported/global_step0/manifest.json)"
    rm -r imported
done
file=release-version0/release/mp_rank_00/model_optim_rng.pt
expect 2 "$file: .*--num-layers, --hidden-size, --num-attention-heads, --max-position-embeddings" lm-convert release-version0 x
expect 2 "$file: .*give --hidden-size, --max-position-embeddings" \
    lm-convert release-version0 x --num-layers 2 --num-attention-heads 4
expect 3 "$file: .*--num-layers|$file: .*layers.1" lm-convert release-version0 x "${sizes[@]}" --num-layers 1
expect 3 'release-version0: .*layers.2' lm-convert release-version0 x "${sizes[@]}" --num-layers 3
expect 3 "$file: .*position_embeddings.weight.* \[13,16\].* \[12,16\]" \
    lm-convert release-version0 x "${sizes[@]}" --max-position-embeddings 13
expect 3 "$file: .*lm-convert" lm-ckpt show release-version0
nothing_under x

# Without --vocab-size the padding is kept.
expect 0 'note: .* 32 rows .*--vocab-size' lm-convert release-version1 padded "${sizes[@]}" --seq-length 8 --fp16 --hidden-dropout 0
[ "$(jq -c '.model | [.vocab_size, .seq_length, .max_position_embeddings, .attention_dropout, .hidden_dropout]' \
    padded/global_step0/manifest.json)" = '[32,8,12,0.1,0]' ] || fail "padded: $(jq -c .model padded/global_step0/manifest.json)"

# A checkpoint that states its model needs no flags, and refuses them.
expect 0 '' lm-convert wanted stated --to megatron-lm --quiet
expect 2 '--num-layers: .*stated/' lm-convert stated x "${sizes[@]}"
expect 2 '--hidden-size: .*hf-gpt2' lm-convert release-hf x --hidden-size 16
nothing_under x
