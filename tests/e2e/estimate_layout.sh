#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-estimate layout: exactly the layouts that fit, each with the memory of lm-estimate memory, the fastest first.
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

model=(--num-layers 6 --hidden-size 256 --num-attention-heads 8 --seq-length 128 --vocab-size 1000 --bf16 --zero-stage 1)
args=("${model[@]}" --global-batch-size 24 --gpus 12 --gpus-per-node 4 --all --pp-partition-method uniform
    --num-virtual-stages-per-pipeline-rank 1)
run all.json lm-estimate layout "${args[@]}" --gpu-memory 80GB --json
rows() { jq -c "select(.kind == \"layout\") | $2" "$1"; }

# TP divides 8 heads and a node of 4; PP is at most the 6 layers; DP divides the batch; TP x PP x DP = 12; 3 ways to recompute.
for tp in 1 2 4; do
    for pp in 1 2 3 4 6; do
        ((12 % (tp * pp) == 0)) || continue
        dp=$((12 / (tp * pp)))
        ((24 % dp == 0)) || continue
        for ((micro = 1; micro <= 24 / dp; micro++)); do
            ((24 / dp % micro == 0)) || continue
            for recompute in none selective full; do echo "[$tp,$pp,$dp,$micro,$((24 / dp / micro)),\"$recompute\"]"; done
        done
    done
done | sort >expected.txt
rows all.json '[.tp, .pp, .dp, .micro_batch, .micro_batches, .recompute]' | sort >got.txt
diff expected.txt got.txt || fail "other layouts"
[ "$(jq 'select(.kind == "layouts").tried' all.json)" = "$(wc -l <expected.txt)" ] || fail "$(tail -1 all.json)"
rows all.json .step >steps.txt
sort -g steps.txt | cmp - steps.txt || fail "not the fastest first"
[ "$(rows all.json 'select(.step - (.compute + .tensor + .bubble + .data) | fabs > 1e-12)')" = "" ] || fail "parts that do not sum up"

# Each layout has the memory of lm-estimate memory.
rows all.json '[.tp, .pp, .micro_batch, .recompute, .memory] | join(" ")' | tr -d '"' | awk 'NR % 9 == 1' >some.txt
while read -r tp pp micro recompute memory; do
    again=()
    [ "$recompute" = none ] || again=(--recompute-granularity "$recompute")
    [ "$recompute" != full ] || again+=(--recompute-method uniform)
    lm-estimate memory "${model[@]}" --tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp" \
        --micro-batch-size "$micro" --global-batch-size 24 --world-size 12 --gpu-memory 80GB "${again[@]}" --json >memory.json 2>memory.err ||
        fail "$tp $pp $micro $recompute: $(cat memory.err)"
    [ "$(jq 'select(.kind == "verdict") | .largest + .allowance + (.nccl // 0)' memory.json)" = "$memory" ] ||
        fail "$tp $pp $micro $recompute: not $memory: $(tail -1 memory.json)"
done <some.txt

# With less memory, the layouts that fit keep their order. If none fits, the exit code is 1, and the output has the smallest
# memory that a layout needs.
rows all.json .memory | sort -g >memories.txt
middle=$(sed -n "$(($(wc -l <memories.txt) / 2))p" memories.txt)
run half.json lm-estimate layout "${args[@]}" --gpu-memory "$middle" --json
cmp <(rows all.json "select(.memory <= $middle)") <(rows half.json .) || fail "others fit in $middle"
least=$(head -1 memories.txt)
expect 1 '' lm-estimate layout "${args[@]}" --gpu-memory $((least - 1)) --json
[ "$(jq 'select(.kind == "layouts").least_memory' out)" = "$least" ] || fail "$(cat out)"

# If a flag gives a value, no other value is tried.
run some.json lm-estimate layout "${args[@]}" --gpu-memory 80GB --tensor-model-parallel-size 2 --pipeline-model-parallel-size 3 \
    --micro-batch-size 4 --recompute-activations --train-samples 24_000 --json
[ "$(rows some.json '[.tp, .pp, .dp, .micro_batch, .recompute]')" = '[2,3,2,4,"selective"]' ] || fail "$(cat some.json)"
[ "$(rows some.json '(.training / .step | round)')" = 1000 ] || fail "$(cat some.json)"
# The stage in a DeepSpeed file counts as a flag, also 0.
echo '{"zero_optimization": {"stage": 0}}' >zero.json
run zero.out lm-estimate layout --model gpt2-124m --global-batch-size 24 --gpus 12 --gpus-per-node 4 --all --deepspeed_config zero.json --json
[ "$(rows zero.out .zero | sort -u)" = 0 ] || fail "other stages: $(rows zero.out .zero | sort | uniq -c)"
run text.txt lm-estimate layout "${args[@]}" --gpu-memory 80GB --explain
grep -Eq '^TP +PP +DP +micro batch +chunks +recompute +ZeRO +memory +step +tokens/s +in a step ' text.txt || fail "$(cat text.txt)"
grep -q '  GPU: --gpu or --hardware: ' text.txt || fail "$(cat text.txt)"

# On a terminal, the table is divided into blocks of 80 columns. Each block has the columns that identify a layout, and a shell
# accepts the lines of flags.
command -v script >/dev/null || fail "script is not installed (bsdutils)"
for verb in "layout ${args[*]} --gpu-memory 80GB --train-samples 24_000 --explain" \
    "memory ${model[*]} --pipeline-model-parallel-size 2 --micro-batch-size 2 --global-batch-size 24 --world-size 12" \
    "batch --global-batch-size 576 --rampup-batch-size 192 16 1000 --train-samples 2000 --seq-length 128"; do
    script -qec "stty cols 80; NO_COLOR=1 lm-estimate $verb" /dev/null </dev/null | tr -d '\r' >terminal
    [ "$(grep -v "^lm-estimate: warning: " terminal | wc -L)" -le 80 ] || fail "$verb: lines of more than 80 columns: $(cat terminal)"
    cp terminal "${verb%% *}.terminal"
done
[ "$(grep -c '^TP PP ' <(tr -s ' ' <layout.terminal))" -ge 2 ] || fail "no second block: $(cat layout.terminal)"
# A word list that is wrapped loses no word.
grep -q '1 2 3 .* 576' <(tr -s ' \n' ' ' <batch.terminal) || fail "no sizes: $(cat batch.terminal)"
sed -n '/^lm-train /,/^$/p' layout.terminal >flags.sh
grep -q -- '--tensor-model-parallel-size' flags.sh || fail "no flags: $(cat layout.terminal)"
eval "words=($(sed '1s/^lm-train //' flags.sh))"
[ ${#words[@]} -ge 6 ] || fail "flags: $(cat flags.sh)"

# The fastest ten, one for each TP, PP and micro batch; lm-train accepts their flags, and reports the same memory.
some=("${model[@]}" --global-batch-size 24 --gpus 4 --gpus-per-node 4)
run top.json lm-estimate layout "${some[@]}" --json
[ "$(jq -s '[.[] | select(.kind == "layout")] | length' top.json)" = 10 ] || fail "$(cat top.json)"
[ -z "$(rows top.json '[.tp, .pp, .micro_batch]' | sort | uniq -d)" ] || fail "ties: $(cat top.json)"
[ "$(jq -r 'select(.kind == "fastest").flags' top.json)" = "$(rows top.json .flags | head -1 | jq -r .)" ] || fail "$(cat top.json)"
while read -r flags; do
    declare -a words="($flags)"
    lm-train "${model[@]}" "${words[@]}" --global-batch-size 24 --world-size 4 --mock-data --train-iters 1 --lr 1e-3 \
        --dry-run >plan.txt 2>&1 || fail "$flags: $(cat plan.txt)"
done < <(rows top.json .flags | jq -r .)

# Layouts that would be faster are listed with the memory that they lack.
run tight.json lm-estimate layout "${some[@]}" --gpu-memory "$(jq -s '[.[] | select(.kind == "layout").memory] | min' top.json)" --json
jq -e -s '[.[] | select(.kind == "rejected").missing] | length > 0 and all(. > 0)' tight.json >/dev/null || fail "$(cat tight.json)"
# Their flags give lm-train the layout of the row.
while read -r zero flags; do
    declare -a words="($flags)"
    lm-train "${model[@]}" "${words[@]}" --global-batch-size 24 --world-size 4 --mock-data --train-iters 1 --lr 1e-3 \
        --dry-run >plan.txt 2>&1 || fail "$flags: $(cat plan.txt)"
    [[ $zero = 0 || $flags = *--use-distributed-optimizer* ]] || fail "ZeRO stage $zero: $flags"
done < <(jq -r 'select(.kind == "rejected") | "\(.zero) \(.flags)"' tight.json)

# BLOOM on its 384 GPUs. Only 1 and 2 divide both 384 and its 70 layers.
run bloom.json lm-estimate layout --model bloom-176b --bf16 --global-batch-size 2048 --gpus 384 --json
[ "$(jq -s '[.[] | select(.kind == "layout")] | length' bloom.json)" = 10 ] || fail "$(cat bloom.json)"

expect 2 '--gpus: .*missing' lm-estimate layout "${model[@]}" --global-batch-size 24
expect 2 '--global-batch-size: .*missing' lm-estimate layout "${model[@]}" --gpus 4 --gpu-memory 80GB
expect 2 '--gpus: .* 7 GPUs' lm-estimate layout "${args[@]}" --gpus 7 --gpu-memory 80GB
expect 2 '--top: .*1, got 0' lm-estimate layout "${args[@]}" --top 0
