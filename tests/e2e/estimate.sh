#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-estimate prints the figures of published trainings, as text and as JSON, with its exit codes.
set -euo pipefail
build=$1
estimate=$build/bin/lm-estimate
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

die() { echo "estimate: $*"; exit 1; }
# has TEXT PATTERN: succeeds if a line of the text matches.
has() { grep -qE -- "$2" <<<"$1" || die "no line '$2' in:"$'\n'"$1"; }
# fails CODE PATTERN ARGUMENTS...: checks the exit code, one error line, and an empty standard output.
fails() {
    local code=$1 pattern=$2 got=0
    shift 2
    "$estimate" "$@" >"$dir/out" 2>"$dir/err" || got=$?
    [ "$got" = "$code" ] || die "$*: exit $got, not $code"
    [ ! -s "$dir/out" ] || die "$*: prints results in spite of an error"
    grep -qE -- "$pattern" "$dir/err" || die "$*: no error '$pattern' in: $(cat "$dir/err")"
}

out=$("$estimate" params --model gpt2-124m 2>"$dir/err")
has "$out" '^total +124,439,808 +100\.0 %$'
has "$out" "^BigScience's formula +124,439,808$"
has "$(cat "$dir/err")" '^lm-estimate: note: --model gpt2-124m .* sets --num-layers 12 '

out=$("$estimate" params --num-layers 36 --hidden-size 4096 --num-attention-heads 32 \
    --seq-length 2048 --tensor-model-parallel-size 8 --json)
has "$out" '^\{"kind":"parameters",.*"total":7463923712\}$'
has "$out" '"megatron":7467778048,.*"padded_vocab":51200'
has "$out" '^\{"kind":"rank","pp_rank":0,"layers":36,"parameters":941594624\}$'

# Hidden size / layers and head size of published models, rounded down in their tables.
while read -r layers hidden heads ratio head_size; do
    out=$("$estimate" params --num-layers "$layers" --hidden-size "$hidden" --num-attention-heads "$heads" --seq-length 2048 --json 2>/dev/null)
    has "$out" "\"hidden_per_layer\":$ratio(\\.[0-9]+)?,.*\"head_size\":${head_size}[,}]"
done <<'END'
36 4096 32 113 128
70 14336 112 204 128
64 11600 80 181 145
80 12288 96 153 128
96 12288 96 128 128
96 16384 128 170 128
105 20480 128 195 160
END
has "$("$estimate" params --num-layers 70 --hidden-size 14336 --num-attention-heads 112 --seq-length 2048 --explain 2>/dev/null)" \
    '^  hidden size / layers: .*usually 100 to 200'

out=$("$estimate" memory --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 \
    --vocab-size 256 --threads 2 --json)
has "$out" '^\{"kind":"rank","pp_rank":0,"layers":2,"weights":[0-9]+,"masters":0,'
has "$out" '^\{"kind":"verdict","largest":[0-9]+,"allowance":104857600\}$'
"$estimate" memory --model gpt2-124m --gpu-memory 16GiB >/dev/null 2>&1 || die "124m does not fit"
has "$("$estimate" memory --model gpt2-124m --gpu-memory 16GiB 2>/dev/null)" '^allowance +2\.00 GiB$'
out=$("$estimate" memory --model gpt2-124m --tensor-model-parallel-size 2 --gpu-memory 16GiB 2>/dev/null)
has "$out" '^NCCL +461 MiB$'
# nccl MIB FLAG...: expects this memory of NCCL. NCCL uses NVLS with more than two ranks in a node: 130 MiB more for 4 ranks.
nccl() {
    local mib=$1
    shift
    has "$("$estimate" memory --model gpt2-124m --gpu-memory 16GiB "$@" 2>/dev/null)" "^NCCL +$mib MiB\$"
}
nccl 441 --tensor-model-parallel-size 2 --tensor-comm-sms 22
nccl 591 --tensor-model-parallel-size 4
nccl 461 --tensor-model-parallel-size 4 --deterministic-mode
code=0
out=$("$estimate" memory --model 7.5b --gpu-memory 80GB 2>/dev/null) || code=$?
[ $code = 1 ] || die "a model that does not fit: exit $code"
has "$out" '^fits +no$'

ramp=(--global-batch-size 1024 --rampup-batch-size 16 16 5_000_000)
out=$("$estimate" batch "${ramp[@]}" --train-samples 300_000_000 --seq-length 2048)
has "$out" '^32 +4,962 +2,480 +79,376 +162,562,048 +1 2 4 8 16 32$'
has "$out" '^iterations +311,541$'
# 13B: 313.4 billion tokens after 168,000 iterations.
out=$("$estimate" batch "${ramp[@]}" --train-samples 153_013_584 --seq-length 2048)
has "$out" '^iterations +168,000$'
has "$out" '^tokens +313,371,820,032$'
code=0
out=$("$estimate" batch "${ramp[@]}" --train-samples 300M --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 4 --gpus-per-node 4 --nodes 32 64 96) || code=$?
[ $code = 1 ] || die "nodes that cannot run the ramp: exit $code"
has "$out" '^32 +128 +16 +yes$'
has "$out" '^64 +256 +32 +from iteration 23[0-9]+ on$'
has "$out" '^96 +384 +48 +no: 1024 is not a multiple of 48$'

out=$("$estimate" checkpoint --model bloom-176b --bf16 --json 2>/dev/null)
has "$out" '"weights":352494542848,"optimizer":2114967257088,.*"total":2467513076864,"files":4'
out=$("$estimate" checkpoint --model gpt3-13b --fp16 --save-schedule 10@100,18@1000,1500 \
    --global-batch-size 1024 --train-iters 150_000 2>/dev/null)
has "$out" '^checkpoints +161$'

out=$("$estimate" time --model bloom-176b --global-batch-size 2048 --train-samples 220_000_000 \
    --gpus 384 --tflops 149.02 --checkpoint-activations --json 2>/dev/null)
has "$out" '"iteration":105\.2'
out=$("$estimate" time --model gpt3-13b --global-batch-size 1024 --train-tokens 300B --gpus 256 \
    --tflops 45 --checkpoint-activations --hours-per-day 12 --explain 2>/dev/null)
has "$out" '^rule of thumb +31 d 00 h$'
has "$out" '^  rule of thumb: 6 T P / \(n X\), 8 with full recomputation'

tiny=(--num-layers 2 --hidden-size 64 --seq-length 32)
fails 2 '^lm-estimate: --num-attention-heads: 5 .*--hidden-size 64' \
    params "${tiny[@]}" --num-attention-heads 5
# The AWS example has 48 heads, which do not divide its hidden size.
fails 2 '^lm-estimate: --num-attention-heads: 48 .*--hidden-size 8192' \
    params --num-layers 64 --hidden-size 8192 --num-attention-heads 48 --seq-length 2048
fails 2 "^lm-estimate: --model: 'gpt5' .* gpt2-124m, " params --model gpt5
fails 2 '^lm-estimate: --num-layer: .*--num-layers' params --num-layer 2
fails 2 '^lm-estimate: --tensor-model-parallel-size: 5 ' \
    memory "${tiny[@]}" --num-attention-heads 4 --tensor-model-parallel-size 5
fails 2 '^lm-estimate: --gpu: .*--hardware or --tflops ' time "${tiny[@]}" --num-attention-heads 4 --gpus 1
fails 2 '^lm-estimate: --train-samples: ' batch --global-batch-size 8
fails 2 '^lm-estimate: forecast: .* params,' forecast --model 104b
fails 2 '^lm-estimate: --micro-batch-size: .*1, got 0' \
    memory "${tiny[@]}" --num-attention-heads 4 --micro-batch-size 0
for verb in params memory batch checkpoint time; do
    grep -q -- --explain <<<"$("$estimate" $verb --help)" || die "$verb --help lacks --explain"
done
