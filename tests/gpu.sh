#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests that need a GPU, in stages: from the source tree, or from the unpacked archive of `--target gpu_kit` on a
# machine with the driver and CUDA's libraries but without a compiler.
set -euo pipefail

usage() {
    cat <<'END'
Usage: tests/gpu.sh [--log FILE] [--within SECONDS] [STAGE...]
Runs the stages, by default all in this order, and continues after a failure. Each stage has its own time limit. Prints a
line for each stage, and writes the output of the stages to FILE, by default gpu.log. With --within, no stage starts whose
limit would end later than SECONDS after the start. The stages that did not start are listed for the next call. A stage
whose limit is longer than SECONDS is an error.

  stage       limit  what it runs
  smoke          90  driver and libraries, a copy, a few kernels, 5 steps in bf16
  ops           400  every operation against the CPU's, in fp32, bf16 and fp16; copies, errors, products
  cudnn         400  attention by cuDNN against the CPU's, then 20 training steps with it against lm-train's kernels, where it
                     was built
  train         570  50 steps of GPT-2, BLOOM and Llama shapes as on the CPU, the same bits after a resume,
                     checkpoints from one device to the other
  fault          60  an illegal access ends with the operation's name
  memory        120  the driver's memory in use against the plan
  nccl          300  the conformance of groups, with as many ranks as there are GPUs
  ranks         500  2 ranks, on one GPU if only one exists: conformance, TP = 2, PP = 2, DP = 2
  racecheck     500  compute-sanitizer on a part of the operations (LM_TEST_EVERY): races in shared memory
  memcheck      500  compute-sanitizer on these operations: invalid accesses
  synccheck     400  compute-sanitizer on these operations: barriers
  initcheck     400  compute-sanitizer on these operations: uninitialized memory

Without a GPU all are skipped. Exit code: 0; 1 if a stage failed or exceeded its limit; 2 for wrong usage; 3 if none
failed, but some were omitted.
END
}

stages=(smoke ops cudnn train fault memory nccl ranks racecheck memcheck synccheck initcheck)
declare -A limit=([smoke]=90 [ops]=400 [cudnn]=400 [fault]=60 [memory]=120 [train]=570 [nccl]=300 [ranks]=500
    [memcheck]=500 [racecheck]=500 [synccheck]=400 [initcheck]=400)

log=gpu.log
within=0
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --log) log=$2; shift 2 ;;
        --within)
            within=${2:-}
            [[ $within =~ ^[1-9][0-9]*$ ]] || { echo "gpu.sh: --within: expected a number of seconds, at least 1, got '$within'" >&2; exit 2; }
            shift 2
            ;;
        --stage) stage=$2; shift 2 ;; # the script calls itself for each stage, with the stage's time limit
        *) break ;;
    esac
done
root=$(realpath "$(dirname "$0")/..")
build=$root
[ -x "$root/bin/lm-train" ] || build=${LM_BUILD:-$root/build/release}
tests=$root/tests
train=$build/bin/lm-train
test_cuda=$build/tests/cuda/test_cuda
[ -n "${LM_PLUGIN_DIR:-}" ] || export LM_TEST_GPU=1

# Finds CUDA's libraries if only Python packages have them.
find_libraries() {
    local path
    path=$(python3 "$root/bench/gpu_libraries.py" 2>/dev/null || true)
    [ -z "$path" ] || export LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

small=(--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --mock-data --vocab-size 1000
    --micro-batch-size 4 --global-batch-size 8 --lr 1e-3 --eval-iters 0 --log-interval 1 --device cuda --bf16)
# The shapes for an emulated GPU.
[ -z "${LM_PLUGIN_DIR:-}" ] || small+=(--num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 16
    --vocab-size 64 --micro-batch-size 1 --global-batch-size 2)

smoke() {
    nvidia-smi || true
    ldd "$build"/lib*/{,lm-utils/}liblm_cuda.so 2>/dev/null | grep -E 'cublasLt|nccl|not found' || true
    "$test_cuda" "[device]"
    "$train" "${small[@]}" --train-iters 5
}
# With GPT-2 124M, the tolerance of 2 % of 8 GiB is larger than the differences between CUDA contexts.
memory() {
    local shape=(--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --vocab-size 50304
        --micro-batch-size 16 --global-batch-size 16)
    [ -z "${LM_PLUGIN_DIR:-}" ] || shape=()
    "$train" "${small[@]}" "${shape[@]}" --train-iters 3 --benchmark >use
    cat use
    # The difference in "memory: ..., difference +0.8 %: ..." is within 2 %.
    awk '/^memory: / { line = $0; split($0, part, "difference "); share = part[2] + 0 }
        END { print line; exit line == "" || share < -2 || share > 2 }' use
}
cudnn() {
    [ -n "$(find "$build"/lib* -name liblm_cudnn.so 2>/dev/null)" ] || {
        echo "skipped: built without cuDNN"
        exit 77
    }
    LM_TEST_ATTENTION=cudnn "$test_cuda" "[cases]"
    local way
    for way in fused flash; do
        "$train" "${small[@]}" --attention-dropout 0 --hidden-dropout 0 --train-iters 20 --attention-backend $way >$way.log 2>$way.err
        sed -nE 's/^ iteration.*\| lm loss: *([^ ]+) \|.*/\1/p' $way.log >$way.losses
    done
    if grep 'instead of cuDNN' fused.err; then exit 1; fi
    paste fused.losses flash.losses | awk '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > 0.02 * $2) { print; bad = 1 } }
        END { print NR " steps, losses by cuDNN as by lm-train"; exit bad || NR != 20 }'
}
sanitizer() { bash "$tests/cuda/sanitizer.sh" "$test_cuda" "$1"; }

perform() {
    case $1 in
        smoke) smoke ;;
        memory) memory ;;
        cudnn) cudnn ;;
        ops) "$test_cuda" "~[nccl]~[.fault]~[.loading]" ;;
        fault) "$test_cuda" "[.fault]" ;;
        nccl) "$test_cuda" "[nccl]" ;;
        train) bash "$tests/e2e/train_cuda.sh" "$build" ;;
        ranks) bash "$tests/e2e/train_cuda_ranks.sh" "$build" ;;
        memcheck | racecheck | synccheck | initcheck) sanitizer "$1" ;;
        *) echo "no such stage: $1" >&2; exit 2 ;;
    esac
}

# Ends a stage as skipped without a GPU.
need_gpu() {
    local code=0 said
    said=$("$test_cuda" --list-tags 2>&1) || code=$?
    [ $code != 77 ] || { echo "$said"; exit 77; }
}

if [ -n "${stage:-}" ]; then
    need_gpu
    perform "$stage"
    exit 0
fi

[ $# -gt 0 ] || set -- "${stages[@]}"
for name in "$@"; do
    [ -n "${limit[$name]:-}" ] || { echo "gpu.sh: no stage '$name': use one of ${stages[*]}" >&2; exit 2; }
    [ "$within" = 0 ] || [ "${limit[$name]}" -le "$within" ] || {
        echo "gpu.sh: --within $within: stage '$name' may take ${limit[$name]} s: give a longer time or other stages" >&2
        exit 2
    }
done
if [ "$build" != "$root" ] && [ -z "${LM_BUILD:-}" ]; then
    [ -e "$build/build.ninja" ] || (cd "$root" && cmake --preset release -D LM_CUDA=ON)
    cmake --build "$build" --target lm-train lm_cuda test_cuda test_conformance
fi
find_libraries
log=$(realpath -m "$log")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
: >"$log"
printf '%s, %s, %s\n' "$("$train" --version)" "$(uname -n)" "$(date -u +%FT%TZ)" | tee -a "$log"
nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv,noheader 2>/dev/null | tee -a "$log" ||
    echo "no nvidia-smi" | tee -a "$log"

failed=0
left_out=()
for name in "$@"; do
    if [ "$within" -gt 0 ] && [ $((SECONDS + limit[$name])) -gt "$within" ]; then
        left_out+=("$name")
        continue
    fi
    begin=$SECONDS
    code=0
    printf '\n==== %s ====\n' "$name" >>"$log"
    # In a separate process group, so that the time limit ends all its processes.
    timeout -k 10 "${limit[$name]}" bash "$root/tests/gpu.sh" --stage "$name" >"$name.out" 2>&1 </dev/null || code=$?
    cat "$name.out" >>"$log"
    case $code in
        0) verdict=PASSED ;;
        77) verdict=skipped ;;
        124 | 137) verdict="OUT OF TIME" ;;
        *) verdict="FAILED ($code)" ;;
    esac
    [ "$verdict" = PASSED ] || [ "$verdict" = skipped ] || failed=1
    # The last line of output is the reason of a failure.
    # shellcheck disable=SC2016
    said=$(sed -n '/[^ ]/{s/^ *//; h}; ${x; p}' "$name.out" | cut -c 1-200)
    printf '%-9s %s in %d s: %s\n' "$name" "$verdict" $((SECONDS - begin)) "$said" | tee -a "$log"
done
if [ ${#left_out[@]} != 0 ]; then
    echo "omitted for lack of time: ${left_out[*]}" | tee -a "$log"
    [ $failed != 0 ] || exit 3
fi
exit $failed
