#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares lm-train on a GPU with the same training on the CPU: losses of GPT-2, BLOOM and Llama shapes in fp32 and bf16, the same
# bits after a resume, checkpoints that move from one device to the other, and messages without a GPU. With LM_TEST_GPU=1, uses
# this machine's GPU (tests/gpu.sh), else the emulated one, also with delayed work and in another order.
# timeout: 1500
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"
emulated=$(realpath "$bin/../tests/emulated_cuda")
unset LM_PLUGIN_DIR
if [ "${LM_TEST_GPU:-}" != 1 ]; then
    if [ ! -e "$emulated/liblm_cuda.so" ]; then
        echo "skipped: a build with sanitizers has no emulated GPU"
        exit 77
    fi
    export LM_PLUGIN_DIR=$emulated
fi

if [ -z "${LM_PLUGIN_DIR:-}" ] && ! "$bin/../tests/cuda/test_cuda" --list-tags >why 2>&1; then
    tail -n 1 why
    exit 77
fi

# Autotuning takes time, and its choice of algorithms changes the last bits, so it is off except where it is tested below.
data=(--mock-data --vocab-size 211 --seed 11 --threads 1 --eval-iters 0 --log-interval 1 --autotune off)
schedule=(--micro-batch-size 1 --global-batch-size 2 --lr 3e-3 --lr-warmup-iters 5 --lr-decay-iters 60)
shape=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 24)
declare -A flags=(
    [gpt2]="--attention-dropout 0.1 --hidden-dropout 0.1"
    [bloom]="--position-embedding-type alibi --embed-layernorm --attention-dropout 0 --hidden-dropout 0"
    [llama]="--use-rotary-position-embeddings --swiglu --normalization RMSNorm --disable-bias-linear
        --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 2 --attention-dropout 0
        --hidden-dropout 0"
)
steps=8 stop=3
# On a real GPU, the shapes have several tiles of the attention kernels, heads of 64 and of 128, and rows of several warps. An
# emulated GPU is too slow for them.
if [ -z "${LM_PLUGIN_DIR:-}" ]; then
    data+=(--threads "$(nproc)")
    schedule+=(--lr 1e-3)
    shape=(--num-layers 2 --hidden-size 512 --num-attention-heads 8 --seq-length 320)
    flags[llama]+=" --num-attention-heads 4"
    steps=50 stop=21
fi

# train LOG MODEL DEVICE FLAG...
train() {
    local log=$1 model=$2 device=$3
    shift 3
    # shellcheck disable=SC2086
    run "$log" lm-train "${data[@]}" "${schedule[@]}" "${shape[@]}" ${flags[$model]} --device "$device" "$@"
}
losses() { sed -nE 's/^ iteration.*\| lm loss: *([^ ]+) \|.*/\1/p' "$1"; }
# close LOG LOG BOUND: every loss of the two differs at most by that relative bound.
close() {
    paste <(losses "$1") <(losses "$2") | awk -v r="$3" -v a="$1" -v b="$2" '
        { d = $1 - $2; if (d < 0) d = -d; if (!($1 > 0) || NF != 2 || d > r * $2) { print a, b, "step", NR ":", $0; bad = 1 } }
        END { exit bad || NR == 0 }'
}
same_files() { cmp "$1/weights-00000.safetensors" "$2/weights-00000.safetensors" && cmp "$1/optim-00000.safetensors" "$2/optim-00000.safetensors"; }

# ---- Many steps against the CPU ----
for model in gpt2 bloom llama; do
    for precision in fp32 bf16; do
        more=(--train-iters "$steps")
        bound=2e-4
        if [ $precision = bf16 ]; then
            more+=(--bf16)
            bound=0.01
        fi
        train $model-$precision-cpu.log $model cpu "${more[@]}"
        train $model-$precision-cuda.log $model cuda "${more[@]}" --save $model-$precision
        close $model-$precision-cuda.log $model-$precision-cpu.log $bound || fail "$model in $precision: other losses"
        [ "$(losses $model-$precision-cuda.log | wc -l)" = $steps ] || fail "$model in $precision: not $steps steps"
    done
done
train fp16-cpu.log llama cpu --train-iters 5 --fp16 --initial-loss-scale 1024
train fp16-cuda.log llama cuda --train-iters 5 --fp16 --initial-loss-scale 1024
close fp16-cuda.log fp16-cpu.log 0.01 || fail "llama in fp16: other losses"

# ---- The same bits: for any order of the work, and after a resume ----
if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    EMULATED_CUDA_DELAY=1 EMULATED_CUDA_REVERSE=1 train late.log gpt2 cuda --train-iters $steps --bf16 --save late
    same_files late/global_step$steps gpt2-bf16/global_step$steps || fail "the bits depend on the order of the work"
fi
code=0
# shellcheck disable=SC2086
lm-train "${data[@]}" "${schedule[@]}" "${shape[@]}" ${flags[gpt2]} --device cuda --train-iters $steps --bf16 --save parts \
    --exit-interval $stop >first.log 2>first.log.err || code=$?
[ $code = 75 ] || fail "--exit-interval: exit $code: $(cat first.log.err)"
train second.log gpt2 cuda --train-iters $steps --bf16 --save parts --load parts
same_files parts/global_step$steps gpt2-bf16/global_step$steps || fail "a resumed run has other bits"

# ---- From the CPU to the GPU and back ----
for from in cpu cuda; do
    to=cuda
    [ $from = cpu ] || to=cpu
    code=0
    # shellcheck disable=SC2086
    lm-train "${data[@]}" "${schedule[@]}" "${shape[@]}" ${flags[llama]} --device $from --train-iters $steps --save $from \
        --exit-interval $stop >begun.log 2>begun.log.err || code=$?
    [ $code = 75 ] || fail "--exit-interval on $from: exit $code: $(cat begun.log.err)"
    train $from-$to.log llama $to --train-iters $steps --load $from
    close <(grep -hE '^ iteration' begun.log $from-$to.log) llama-fp32-cpu.log 2e-4 || fail "a checkpoint from $from on $to"
done

# ---- --benchmark, and the choice of the device ----
train bench.log gpt2 cuda --train-iters 3 --benchmark
grep -Eq '^cuda:0 \(.*\): [0-9.]+ TFLOP/s \(model\), [0-9.]+ TFLOP/s \(Megatron.s formula\), (MFU|no MFU)' bench.log ||
    fail "no FLOP/s: $(cat bench.log)"
grep -Eq '^adamw +[0-9]+ ' bench.log || fail "no times of operations: $(cat bench.log)"
# Timing each operation slows an iteration, so --benchmark takes its throughput from other iterations.
for device in cpu cuda; do
    # Enough iterations to distinguish these cases; on an emulated GPU each takes long.
    all=("2 1 0" "3 1 1" "4 2 1" "8 4 3")
    [ $device = cpu ] || [ -z "${LM_PLUGIN_DIR:-}" ] || all=("2 1 0" "4 2 1")
    for counts in "${all[@]}"; do
        read -r total measured timed <<<"$counts"
        train bench.log gpt2 $device --train-iters "$total" --benchmark
        grep -Eq "^benchmark: .* ms per iteration over $measured iterations, " bench.log || fail "$counts: $(cat bench.log)"
        if [ "$timed" = 0 ]; then
            grep -q '^operations were not timed' bench.log || fail "$counts: $(cat bench.log)"
        else
            grep -Eq "^operations: .* ms per iteration over $timed other iterations" bench.log || fail "$counts: $(cat bench.log)"
            grep -Eq '^linear_forward +18 ' bench.log || fail "$counts: not 18 products an iteration: $(cat bench.log)"
        fi
    done
done
train auto.log gpt2 auto --train-iters 1
grep -q 'note: device: cuda:0' auto.log.err || fail "auto does not take the GPU: $(cat auto.log.err)"

# ---- Measured GEMMs: later runs make the same choices ----
for log in measured found; do
    EMULATED_CUDA_LOG=$PWD/$log.events train $log.log gpt2 cuda --train-iters 3 --bf16 --autotune choices --save $log
done
grep -Eq 'note: autotune: [1-9][0-9]* .* 0 .* choices' measured.log.err || fail "$(cat measured.log.err)"
grep -Eq 'note: autotune: 0 .* [1-9][0-9]* .* choices' found.log.err || fail "$(cat found.log.err)"
same_files measured/global_step3 found/global_step3 || fail "the same choices give other bits"
# For a product whose key is not in the directory, lm-train would search cuBLASLt's algorithms and take the first.
if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    grep -q '^search for a product' measured.events.* || fail "no search while algorithms are measured"
    if grep '^search for a product' found.events.*; then fail "products of the training are not measured"; fi
fi
for file in choices/*; do echo nonsense >"$file"; done
expect 3 ' choices/product-[^:]*: ' lm-train "${data[@]}" "${schedule[@]}" "${shape[@]}" \
    --train-iters 1 --device cuda --bf16 --autotune choices
# The default is SAVE/autotune; --deterministic-mode measures nothing.
plain_run=(lm-train --mock-data --vocab-size 211 --threads 1 --eval-iters 0 "${schedule[@]}" "${shape[@]}" --train-iters 1
    --device cuda --bf16 --save tuned)
run tuned.log "${plain_run[@]}"
grep -Eq 'note: autotune: [1-9][0-9]* .* 0 .* tuned/autotune' tuned.log.err || fail "$(cat tuned.log.err)"
run tuned.log "${plain_run[@]}" --load tuned --train-iters 2
grep -Eq 'note: autotune: 0 .* [1-9][0-9]* .* tuned/autotune' tuned.log.err || fail "$(cat tuned.log.err)"
run tuned.log "${plain_run[@]}" --save repeatable --deterministic-mode
if grep 'note: autotune' tuned.log.err || [ -e repeatable/autotune ]; then fail "--deterministic-mode measures algorithms"; fi
train tf32.log gpt2 cuda --train-iters 3 --allow-tf32
close tf32.log <(grep -E '^ iteration' gpt2-fp32-cpu.log | head -n 3) 2e-2 || fail "TF32: other losses"
train ignored.log gpt2 cpu --train-iters 1 --allow-tf32 --autotune none
grep -q 'note: --allow-tf32: ignored: .*CPU' ignored.log.err || fail "not noted: $(cat ignored.log.err)"
[ ! -e none ] || fail "--autotune on a CPU makes a directory"

# ---- Attention by cuDNN, here a fake: the default for models that it can compute, and off with --deterministic-mode. A
# checkpoint records the flag, and a resume with another one prints a note. ----
if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    plain=(--attention-dropout 0 --hidden-dropout 0 --bf16)
    # attention LOG PLANS FLAG...: trains, and expects that PLANS plans of cuDNN are used, all of them before the buffers
    # of the training are allocated, which is after the trial steps.
    attention() {
        local log=$1 plans=$2
        shift 2
        rm -f plans.*
        EMULATED_CUDA_LOADING=1 EMULATED_CUDA_LOG=$PWD/plans train "$log" gpt2 cuda "${plain[@]}" "$@"
        awk -v wanted="$plans" '/^loaded: attention/ { ++n; late = 1 } /^cudaMalloc/ { late = 0 }
            END { print n + 0 " plans"; exit n != wanted || late }' plans.* || fail "$log: not $plans plans of cuDNN at the start: $*"
    }
    attention flash.log 0 --train-iters 4 --attention-backend flash
    attention fused.log 2 --train-iters 4 --attention-backend fused --save fused
    attention auto.log 2 --train-iters 4
    attention repeatable.log 0 --train-iters 4 --deterministic-mode
    for log in fused auto repeatable; do close $log.log flash.log 0.01 || fail "$log: other losses"; done
    cmp <(losses repeatable.log) <(losses flash.log) || fail "--deterministic-mode uses other kernels"
    for log in fused auto; do
        if grep 'note: .*attention.*cuDNN' $log.log.err; then fail "cuDNN is not used"; fi
    done
    attention again.log 2 --train-iters 5 --load fused --override-opt_param-scheduler
    grep -q 'note: --attention-backend: .*"fused" .*"auto" ' again.log.err ||
        fail "not noted: $(cat again.log.err)"
    train declined.log gpt2 cuda --train-iters 1 --bf16 --attention-backend fused
    grep -q "note: .*attention.*cuDNN: .*dropout" declined.log.err ||
        fail "not noted: $(cat declined.log.err)"
    train repeatable.log gpt2 cuda --train-iters 1 --bf16 --attention-backend fused --deterministic-mode
    grep -q "note: --attention-backend fused: ignored: --deterministic-mode" repeatable.log.err ||
        fail "not noted: $(cat repeatable.log.err)"
fi

# ---- Launches of one layer in a step of one micro-batch, of kernels and of cuBLASLt's products, as in bench/cuda.md. GPT-2 needs
# no launch for the biases of products that end a branch, because the norm's backward sums their gradients. ----
if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    # count MODEL LAYERS STEPS KIND: prints the number of launches of that kind in a run.
    count() {
        rm -f launches.*
        EMULATED_CUDA_LOG=$PWD/launches train launches.log "$1" cuda --bf16 --attention-backend flash --num-layers "$2" --global-batch-size 1 --train-iters "$3"
        awk -v kind="$4" '$1 == kind { ++n } END { print n + 0 }' launches.*
    }
    # launches MODEL KIND EXPECTED: compares steps of one and of two layers, without the start of the run.
    launches() {
        local one two
        one=$(($(count "$1" 1 2 "$2") - $(count "$1" 1 1 "$2")))
        two=$(($(count "$1" 2 2 "$2") - $(count "$1" 2 1 "$2")))
        [ $((two - one)) = "$3" ] || fail "$1: $((two - one)) launches of a $2 in a layer, not $3 ($one in a step of one layer)"
    }
    launches gpt2 kernel 14
    launches gpt2 product 12
    launches llama kernel 14
    launches llama product 12
fi

# ---- Messages without a GPU ----
if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    try=(lm-train "${data[@]}" "${schedule[@]}" "${shape[@]}" --train-iters 1 --device)
    EMULATED_CUDA_ERROR=100 expect 3 '^lm-train: cuda: .*--device cpu$' "${try[@]}" cuda
    EMULATED_CUDA_ERROR=100 CUDA_VISIBLE_DEVICES=9 expect 3 '^lm-train: cuda: .*CUDA_VISIBLE_DEVICES=9' "${try[@]}" cuda
    EMULATED_CUDA_ERROR=34 expect 3 "^lm-train: cuda: .*stub" "${try[@]}" cuda
    EMULATED_CUDA_ERROR=35 EMULATED_CUDA_DRIVER=12040 expect 3 '^lm-train: cuda: .*CUDA 12.4, .*CUDA 13.0: .*580 .*CUDA 12.4' \
        "${try[@]}" cuda
    EMULATED_CUDA_ERROR=35 EMULATED_CUDA_DRIVER=0 expect 3 '^lm-train: cuda: .*no NVIDIA driver' "${try[@]}" cuda
    EMULATED_CUDA_ERROR=46 expect 3 '^lm-train: cuda:0.*cudaErrorDevicesUnavailable.*nvidia-smi' "${try[@]}" cuda
    EMULATED_CUDA_CAPABILITY=75 expect 3 'compute capability 7.5; .*8.0' "${try[@]}" cuda
    for capability in 70 75; do
        EMULATED_CUDA_CAPABILITY=$capability expect 0 'note: .*CPU: cuda:0: .*compute capability 7' \
            "${try[@]}" auto
    done
    EMULATED_CUDA_ERROR=46 expect 0 'note: .*CPU: cuda:0: .*cudaErrorDevicesUnavailable.*nvidia-smi' "${try[@]}" auto
    mkdir bare
    cp "$emulated/liblm_cuda.so" bare/
    LM_PLUGIN_DIR=$PWD/bare expect 3 'fused: .*cuDNN plugin: .*--attention-backend fused' \
        "${try[@]}" cuda --bf16 --attention-dropout 0 --attention-backend fused
    LM_PLUGIN_DIR=$PWD/bare expect 0 'note: attention: .*cuDNN: .*plugin' \
        "${try[@]}" cuda --bf16 --attention-dropout 0
    expect 2 '--attention-backend fused: .*fp32: .*--bf16' "${try[@]}" cuda --attention-backend fused
    expect 0 'note: attention: .*cuDNN' "${try[@]}" cuda --attention-dropout 0
    expect 0 '' "${try[@]}" cuda --attention-backend fused --deterministic-mode
    expect 0 'note: --attention-backend unfused: ignored' "${try[@]}" cuda --attention-backend unfused
    expect 0 'note: --attention-backend: ignored: .*CPU' "${try[@]}" cpu --attention-backend flash
    # Too little memory is an error before anything is allocated. Memory in use beyond the allowance is a warning.
    EMULATED_CUDA_MEMORY=1 expect 3 'cuda:0 .*: 1.0[0-9]* MiB of its 1.0[0-9]* MiB ' "${try[@]}" cuda
    EMULATED_CUDA_TAKEN=3072 expect 0 'warning: cuda:0 .*: 3\.[0-9]* GiB .* 1\.[0-9]* GiB .* 2\.[0-9]* GiB \(.* 2' \
        "${try[@]}" cuda
    EMULATED_CUDA_MEMORY=1024 expect 0 'warning: cuda:0 .*: .* 2\.[0-9]* GiB \(.* 0 B .* 2[.0]* GiB .*\), .* 1[.0]* GiB' \
        "${try[@]}" cuda
    expect 0 'note: memory: .*driver, .*plan, .*\+0\.[0-9] %' "${try[@]}" cuda
    if grep 'warning: cuda:0' err; then fail "a warning without a reason"; fi
    EMULATED_CUDA_ERROR=100 expect 0 'note: .*CPU: cuda: ' "${try[@]}" auto
    mkdir none
    LM_PLUGIN_DIR=$PWD/none expect 3 '^lm-train: .*no CUDA plugin' "${try[@]}" cuda
    echo nothing >none/liblm_cuda.so
    LM_PLUGIN_DIR=$PWD/none expect 3 '^lm-train: .*CUDA plugin .*none/liblm_cuda' "${try[@]}" cuda
fi
echo "GPT-2, BLOOM and Llama train on the ${LM_PLUGIN_DIR:+emulated }GPU as on the CPU"
