#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-estimate checkpoint prints exactly the bytes of the files that lm-train saves: models, types of weights, layouts, sizes of
# buckets, and nodes.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$(dirname "$0")/mpirun.bash"

train=(--seq-length 32 --mock-data --micro-batch-size 1 --global-batch-size 8 --lr 1e-3 --threads 1 --eval-iters 0 --train-iters 2
    --no-node-check)
gpt=(--num-layers 4 --hidden-size 48 --num-attention-heads 4 --vocab-size 301)
llama=(--num-layers 4 --hidden-size 64 --num-attention-heads 4 --num-query-groups 2 --group-query-attention --swiglu
    --disable-bias-linear --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights
    --vocab-size 300)
bloom=(--num-layers 5 --hidden-size 64 --num-attention-heads 4 --position-embedding-type alibi --embed-layernorm --vocab-size 290)
# Large enough that slices are aligned and have several digests.
large=(--num-layers 2 --hidden-size 512 --num-attention-heads 4 --vocab-size 9000)

# same_bytes HOSTS FLAGS...: trains with a rank on each host of HOSTS. Expects the estimated names and sizes of the step's files.
n_checked=0
same_bytes() {
    local hosts command=() host nodes
    read -ra hosts <<<"$1"
    shift
    rm -rf saved
    for host in "${hosts[@]}"; do command+=(-n 1 -x "LM_HOST=$host" lm-train "${train[@]}" "$@" --save saved :); done
    mpirun "${command[@]::${#command[@]}-1}" >out 2>err </dev/null || fail "$*: $(cat err)"
    nodes=$(printf '%s\n' "${hosts[@]}" | sort -u | wc -l)
    lm-estimate checkpoint "${train[@]}" "$@" --world-size ${#hosts[@]} --nodes "$nodes" --files --json >estimate.json 2>err ||
        fail "$*: $(cat err)"
    (cd saved/global_step2 && find . -type f -printf '%P %s\n' | sort) >on_disk
    jq -r 'select(.kind == "file") | "\(.name) \(.bytes)"' estimate.json | sort >estimated
    diff on_disk estimated >differences || fail "$* on $nodes nodes: on disk and estimated: $(cat differences)"
    [ "$(awk '{ n += $2 } END { print n }' on_disk)" = "$(jq 'select(.kind == "checkpoint").total' estimate.json)" ] ||
        fail "$*: the sum: $(cat estimate.json)"
    n_checked=$((n_checked + 1))
}
same_bytes a "${gpt[@]}"
same_bytes a "${gpt[@]}" --bf16
same_bytes a "${llama[@]}" --fp16
same_bytes a "${large[@]}" --bf16 --ddp-bucket-size 100000
same_bytes "a a" "${large[@]}" --tensor-model-parallel-size 2
same_bytes "a a a a" "${bloom[@]}" --bf16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
same_bytes "a a b b" "${gpt[@]}" --pipeline-model-parallel-size 2 --use-distributed-optimizer --ddp-bucket-size 5000
same_bytes "a a b b c c d d" "${llama[@]}" --bf16 --use-distributed-optimizer --tensor-model-parallel-size 2
same_bytes "a b c d" "${gpt[@]}" --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --bf16

# The files of the tokenizer that the flags or the data name.
make_corpus corpus.jsonl 100
lm-preprocess train-tokenizer --input corpus.jsonl --vocab-size 290 --output tok -q >out
lm-preprocess --input corpus.jsonl --output-prefix data --append-eod --tokenizer-model tok -q
lm-preprocess --input corpus.jsonl --output-prefix bytes --append-eod --tokenizer-type ByteTokenizer -q
small=("${gpt[@]:0:6}")
same_bytes a "${small[@]}" --tokenizer-model tok
jq -e 'select(.kind == "checkpoint") | .tokenizer > 5000' estimate.json >/dev/null || fail "$(cat estimate.json)"
mock=("${train[@]}")
train=("${train[@]/--mock-data/}")
for i in "${!train[@]}"; do [ -n "${train[i]}" ] || unset "train[i]"; done
same_bytes a "${small[@]}" --data-path data_text_document
same_bytes a "${small[@]}" --data-path bytes_text_document
expect 0 'note: the tokenizer is unknown' lm-estimate checkpoint "${gpt[@]}" --seq-length 32
train=("${mock[@]}")
expect 0 '' lm-estimate checkpoint "${train[@]}" "${gpt[@]}"
! grep -q 'tokenizer' err || fail "$(cat err)"

# Long texts in the flags of the run fill the reserved room of the manifest, and do not change its size.
same_bytes a "${gpt[@]}" --seed 1234567 --lr-warmup-samples 1 --weight-decay 0.123456789 --log-interval 7
lm-train "${train[@]}" "${gpt[@]}" --save saved --load saved --train-iters 11 --save-interval 1 --seed 1234567 --lr-warmup-samples 1 \
    --weight-decay 0.123456789 --log-interval 7 --override-opt_param-scheduler >out 2>err </dev/null || fail "resume: $(cat err)"
sizes=$(find saved -name manifest.json -printf '%s\n' | sort -u | wc -l)
manifests=$(find saved -name manifest.json | wc -l)
[ "$manifests of $sizes sizes" = "10 of 1 sizes" ] || fail "sizes of manifests: $(ls -l saved/*/manifest.json)"

# All files in a directory of checkpoints, except those that --explain names, have the total size of the schedule.
rm -rf saved
lm-train "${train[@]}" "${gpt[@]}" --save saved --train-iters 5 --save-interval 2 >out 2>err </dev/null || fail "save: $(cat err)"
lm-estimate checkpoint "${train[@]}" "${gpt[@]}" --train-iters 5 --save-interval 2 --json >estimate.json 2>err || fail "$(cat err)"
(cd saved && find . -type f ! -name latest ! -name fence.json ! -name 'generation-*' -print0) >files
(cd saved && du -cb --files0-from=../files | tail -1 | cut -f1) >on_disk
[ "$(jq 'select(.kind == "all").total' estimate.json)" = "$(cat on_disk)" ] || fail "all: $(cat estimate.json), on disk $(cat on_disk)"
(cd saved && du -cb latest fence.json generation-* | tail -1 | cut -f1) >others
[ "$(cat others)" -lt 4096 ] || fail "latest, fence.json and generation-*: $(cat others) bytes"
lm-estimate checkpoint "${train[@]}" "${gpt[@]}" --explain >explained 2>err || fail "$(cat err)"
grep -q 'without latest, fence.json and generation-N' explained || fail "$(cat explained)"

expect 2 '--nodes: 3 .* 4: .*--world-size' \
    lm-estimate checkpoint --model gpt2-124m --world-size 4 --nodes 3
# With --save-retain, the checkpoints that are on disk at once: those that stay, and one that is being saved.
saves=("${train[@]}" "${gpt[@]}" --train-iters 100 --save-interval 10)
for rules in "keep-last=3 4" "keep-last=1 2" "keep-last=2,keep-every=50 4" "keep-every=10 10"; do
    lm-estimate checkpoint "${saves[@]}" --save-retain "${rules% *}" --json >estimate.json 2>err || fail "$(cat err)"
    [ "$(jq 'select(.kind == "all").on_disk' estimate.json)" = "${rules#* }" ] || fail "$rules: $(cat estimate.json)"
    checkpoint=$(jq 'select(.kind == "checkpoint").total' estimate.json)
    [ "$(jq 'select(.kind == "all").on_disk_bytes' estimate.json)" = $((checkpoint * ${rules#* })) ] || fail "$(cat estimate.json)"
done
expect 0 '' lm-estimate checkpoint "${saves[@]}" --save-retain-interval 50 --json
[ "$(jq 'select(.kind == "all").on_disk' out)" = 3 ] || fail "--save-retain-interval: $(cat out)"
# A model of which two checkpoints fit on the file system of --save, and four do not.
layers=$(($(df --output=avail -B1 . | tail -1) / 3 / 151000000))
if [ "$layers" -gt 20 ]; then
    large=("${train[@]}" --num-layers "$layers" --hidden-size 1024 --num-attention-heads 8 --vocab-size 301 --train-iters 100
        --save-interval 10 --save room)
    expect 0 '' lm-estimate checkpoint "${large[@]}" --save-retain keep-last=1
    ! grep -q 'are free' err || fail "two checkpoints fit: $(cat err)"
    expect 0 'warning: --save: room: .* free, but 4 checkpoints' lm-estimate checkpoint "${large[@]}" --save-retain keep-last=3
fi
echo "$n_checked checkpoints have exactly the estimated files"
