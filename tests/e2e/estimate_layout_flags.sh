#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The flags of lm-estimate layout: lm-train accepts the whole line, with the layout of the row. lm-estimate time prints the step
# and the memory of the row.
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

rows() { jq -c "select(.kind == \"$1\") | $2" found.json; }

# check_row ROW GPUS: lm-estimate time with the row's flags has its step and its memory; lm-train's plan has its layout.
check_row() {
    local row=$1 gpus=$2 flags more expected got
    flags=$(jq -r .flags <<<"$row")
    more=$(rows layouts .time_flags | jq -r .)
    declare -a train="($flags)" time="($flags $more)"
    lm-estimate time "${time[@]}" --json >time.json 2>time.err || fail "time $flags $more: $(cat time.err)"
    jq -e --argjson row "$row" -s '.[0] | .step_s == $row.step and .memory_bytes == $row.memory' time.json >/dev/null ||
        fail "time $flags $more: $(cat time.json), the row: $row"
    lm-train "${train[@]}" --world-size "$gpus" --mock-data --train-iters 1 --lr 1e-3 --device cuda --dry-run --print-config \
        >config.json 2>config.err || fail "lm-train $flags: $(cat config.err)"
    expected=$(jq -c '[.tp, .pp, .dp, .micro_batch, .chunks, .recompute, .zero]' <<<"$row")
    got=$(jq -c '.parallel as $p | [$p.tensor_model_parallel_size, $p.pipeline_model_parallel_size, $p.data_parallel_size,
        .schedule.micro_batch_size, $p.virtual_pipeline_chunks, $p.recompute_granularity, $p.zero_stage]' config.json)
    [ "$got" = "$expected" ] || fail "$flags: lm-train has $got instead of $expected: $(cat config.json)"
    n_checked=$((n_checked + 1))
}

# checked GPUS FLAGS...: checks the first and the last row of a search.
n_checked=0
checked() {
    local gpus=$1
    shift
    run found.json lm-estimate layout --gpus "$gpus" "$@" --json
    check_row "$(rows layout . | head -1)" "$gpus"
    check_row "$(rows layout . | tail -1)" "$gpus"
}
shape=(--num-layers 14 --hidden-size 2048 --num-attention-heads 16 --seq-length 1024 --vocab-size 50_000)
checked 8 --model gpt2-124m --global-batch-size 64
checked 64 --model 7.5b --bf16 --use-distributed-optimizer --global-batch-size 512
checked 128 --model gpt3-13b --fp16 --global-batch-size 1024 --gpu a100-40g
checked 256 --model llama-70b --bf16 --global-batch-size 1024 --gpu h100 --sequence-parallel
checked 384 --model bloom-176b --bf16 --global-batch-size 2048 --network omni-path --nics 4
checked 16 "${shape[@]}" --bf16 --global-batch-size 96 --swiglu --normalization RMSNorm --pp-partition-method parameters
checked 32 "${shape[@]}" --bf16 --global-batch-size 256 --pipeline-model-parallel-size 4 --recompute-granularity full \
    --recompute-method block --recompute-num-layers 2
checked 64 --model gpt3-13b --global-batch-size 512 --trainer megatron
checked 64 --model llama-70b --bf16 --global-batch-size 64 --gpu h100 --allowance 3GiB --tensor-comm-sms 4 --deterministic-mode
# NCCL's memory follows --tensor-comm-sms and --deterministic-mode here as in lm-estimate memory.
flags=$(jq -r 'select(.kind == "fastest").flags' found.json)
declare -a fastest="($flags)"
run memory.json lm-estimate memory "${fastest[@]}" --world-size 64 --gpu-memory 100TB --allowance 3GiB --json
[ "$(jq 'select(.kind == "verdict") | .largest + .nccl + .allowance' memory.json)" = "$(rows layout .memory | head -1)" ] ||
    fail "memory $flags: $(cat memory.json)"
[ "$n_checked" = 18 ] || fail "$n_checked rows"

# Text: the flags of the fastest layout as one command, and the assumed format.
prints '^lm-train --model gpt3-13b --global-batch-size 512 --tensor-model-parallel-size .* --fp16$' \
    lm-estimate layout --gpus 64 --model gpt3-13b --global-batch-size 512 --trainer megatron
prints '^format \(assumed: no --bf16, --fp16\) +fp16$' \
    lm-estimate layout --gpus 64 --model gpt3-13b --global-batch-size 512 --trainer megatron
prints '^for lm-estimate time +--gpus 64 --gpu a100 --trainer lm-train$' \
    lm-estimate layout --gpus 64 --model 7.5b --bf16 --global-batch-size 512
# Values that a shell would change are quoted.
prints "^lm-train .* --data-path 'a b' --" \
    lm-estimate layout --gpus 64 --model 7.5b --bf16 --global-batch-size 512 --vocab-size 50257 --data-path 'a b'
echo "$n_checked layouts have the same step in lm-estimate time and the same layout in lm-train"
