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
for wrong in 1 3 24; do
    expect 2 "--num-layers: .*$wrong.* release-version0/release has 2 layers" lm-convert release-version0 x "${sizes[@]}" --num-layers $wrong
done
expect 3 "$file: .*position_embeddings.weight.* \[13,16\].* \[12,16\]" \
    lm-convert release-version0 x "${sizes[@]}" --max-position-embeddings 13
expect 3 "$file: .*lm-convert" lm-ckpt show release-version0
nothing_under x

# Without --vocab-size the padding is kept.
expect 0 'note: .* 32 rows .*--vocab-size' lm-convert release-version1 padded "${sizes[@]}" --seq-length 8 --fp16 --hidden-dropout 0
[ "$(jq -c '.model | [.vocab_size, .seq_length, .max_position_embeddings, .attention_dropout, .hidden_dropout]' \
    padded/global_step0/manifest.json)" = '[32,8,12,0.1,0]' ] || fail "padded: $(jq -c .model padded/global_step0/manifest.json)"

# The padding flag of the training has no effect on an import.
expect 0 'note: --make-vocab-size-divisible-by: ' \
    lm-convert release-version1 padded8 "${sizes[@]}" --vocab-size 29 --make-vocab-size-divisible-by 8
[ "$(jq .model.vocab_size padded8/global_step0/manifest.json)" = 29 ] || fail "padded8"

# Arguments without the number of samples: that of the learning rate schedule, from which a run continues. A schedule at another
# sample than the arguments is noted.
lm-train --mock-data --vocab-size 50 --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --micro-batch-size 1 \
    --global-batch-size 4 --lr 1e-3 --train-iters 3 --eval-iters 0 --threads 1 --device cpu --save trained --quiet >log 2>&1 || fail "$(cat log)"
lm-convert trained exported --to megatron-lm --quiet
file=exported/iter_0000003/mp_rank_00/model_optim_rng.pt
renamed() { # renamed NAME: NAME in the pickle of the file gets another first letter
    cp saved.pt $file
    python3 - "$file" "$1" <<'END'
import sys, zipfile
path, name = sys.argv[1], sys.argv[2].encode()
with zipfile.ZipFile(path) as archive:
    records = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
with zipfile.ZipFile(path, "w") as archive:
    for key, data in records:
        archive.writestr(key, data.replace(name, b"x" + name[1:]) if key.endswith("data.pkl") else data)
END
}
cp $file saved.pt
for lost in "" consumed_train_samples num_steps; do
    if [ -n "$lost" ]; then renamed $lost; fi
    rm -rf again
    expect 0 '' lm-convert exported again --quiet
    [ "$(jq -c '[.counters.iteration, .counters.consumed_samples]' again/global_step3/manifest.json)" = '[3,12]' ] ||
        fail "$lost: $(jq -c .counters again/global_step3/manifest.json)"
    ! grep -q schedule err || fail "$lost: $(cat err)"
done

# A checkpoint that states its model needs no flags, and refuses them.
expect 0 '' lm-convert wanted stated --to megatron-lm --quiet
expect 2 '--num-layers: .*stated/' lm-convert stated x "${sizes[@]}"
expect 2 '--hidden-size: .*hf-gpt2' lm-convert release-hf x --hidden-size 16
nothing_under x
