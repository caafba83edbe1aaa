#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several ranks with a GPU each: the conformance suite of groups on device memory, layouts that have the losses of one rank for
# any order of the GPUs' work, and failures that end a job. Uses the emulated GPU; with LM_TEST_GPU=1, the GPUs of this machine,
# where two ranks share a single one.
# labels: e2e;mpi
# timeout: 900
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
emulated=$(realpath "$bin/../tests/emulated_cuda")
unset LM_PLUGIN_DIR
if [ "${LM_TEST_GPU:-}" != 1 ]; then
    if [ ! -e "$emulated/liblm_cuda.so" ]; then
        echo "skipped: a build with sanitizers has no emulated GPU"
        exit 77
    fi
    export LM_PLUGIN_DIR=$emulated
elif ! "$bin/../tests/cuda/test_cuda" --list-tags >why 2>&1; then
    tail -n 1 why
    exit 77
fi

if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    # shellcheck source=tests/e2e/mpirun.bash
    . "$here/mpirun.bash"
    ranks() { mpirun -n "$@"; }
else
    # ranks N COMMAND...: starts N ranks, each with the GPU of its number. They meet over TCP, because GPU machines may lack MPI.
    # Ranks that share the only GPU report different hosts, as NCCL requires.
    ranks() {
        local n=$1 port code=0 rank pids=()
        port=$(free_ports 1)
        shift
        for ((rank = 0; rank < n; ++rank)); do
            (
                export RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$n MASTER_ADDR=localhost MASTER_PORT=$port
                [ "$(nvidia-smi --list-gpus | wc -l)" -ge "$n" ] || export NCCL_HOSTID=host$rank
                exec "$@"
            ) &
            pids+=($!)
        done
        for rank in "${pids[@]}"; do wait "$rank" || code=$?; done
        return $code
    }
fi

# ---- Groups ----
run log test_conformance --cuda
if [ -z "${LM_PLUGIN_DIR:-}" ] && ! ranks 2 test_conformance --rendezvous --cuda --case all_gather >why 2>&1; then
    # Without NCCL: skipped. Any other fault fails below.
    if why=$(grep -m 1 "cannot open the library, which several GPUs need" why); then
        echo "skipped: $why"
        exit 77
    fi
fi
run log ranks 2 test_conformance --rendezvous --cuda
if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    run log ranks 4 test_conformance --rendezvous --cuda
    EMULATED_CUDA_DELAY=1 run log ranks 4 test_conformance --rendezvous --cuda
    grep -q "^4 ranks, " log || fail "4 ranks: $(cat log)"
fi

# ---- Layouts against one rank ----
args=(--mock-data --vocab-size 64 --seed 5 --threads 1 --num-layers 4 --hidden-size 16 --num-attention-heads 2
    --seq-length 16 --micro-batch-size 1 --global-batch-size 4 --train-iters 3 --lr 3e-3 --lr-warmup-iters 1
    --log-interval 1 --eval-iters 0 --device cuda)
figures() { grep -oE '(lm loss|grad norm): [^ ]+' "$1" | sed 's/.*: //'; }
same_figures() {
    [ "$(figures "$1" | wc -l)" = 6 ] || fail "$1 is not 3 steps: $(cat "$1")"
    paste <(figures "$1") <(figures "$2") |
        awk -v bound="$3" '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > bound * $1) { print; exit 1 } }' ||
        fail "$1 and $2 differ"
}
run one.log lm-train "${args[@]}"
run half.log lm-train "${args[@]}" --bf16
tp=(--tensor-model-parallel-size 2)
pp=(--pipeline-model-parallel-size 2)
zero=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 3000)
layout() {
    local log=$1 n=$2
    shift 2
    run "$log" ranks "$n" lm-train "${args[@]}" "$@"
    same_figures one.log "$log" 1e-3
}
layout tp.log 2 "${tp[@]}"
layout pp.log 2 "${pp[@]}"
layout dp.log 2 "${zero[@]}" --check-replicas 1
layout sequence.log 2 "${tp[@]}" --sequence-parallel
layout interleaved.log 2 "${pp[@]}" --num-layers-per-virtual-pipeline-stage 1
run half2.log ranks 2 lm-train "${args[@]}" --bf16 "${tp[@]}"
same_figures half.log half2.log 0.02

# ---- All memory is allocated and all connections are made before the first step ----
if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    EMULATED_CUDA_LOG=$PWD/events.dp layout quiet.log 4 "${pp[@]}" "${zero[@]}"
    EMULATED_CUDA_LOG=$PWD/events.tp layout quiet_tp.log 4 "${tp[@]}" "${pp[@]}"
    EMULATED_CUDA_LOG=$PWD/events.sp layout quiet_sequence.log 4 "${tp[@]}" "${pp[@]}" --sequence-parallel
    # The gradients of the norms of query and key are summed in fp32, other tensor-parallel collectives are in 16 bits.
    EMULATED_CUDA_LOG=$PWD/events.qk run log ranks 4 lm-train "${args[@]}" "${tp[@]}" "${pp[@]}" --bf16 --qk-layernorm
    [ "$(find . -name 'events.*' | wc -l)" = 16 ] || fail "no events: $(ls)"
    for file in events.*; do
        # The GEMMs of the trial steps come before the connections, those of the steps after them.
        awk '/^kernel$/ { next } /^product/ { begun = tried && connected; tried = 1; next } /^NCCL/ { connected = 1 }
            begun { print FILENAME ": in mid-step: " $0; bad = 1 } END { exit bad || !begun }' "$file" ||
            fail "a step makes connections, allocates or searches for algorithms"
        grep -q "^NCCL: connections for a pair's messages" "$file" || fail "no messages in $(cat "$file")"
    done
    # While GEMMs run, NCCL occupies some of the 132 SMs: 4 if stages have links, 16 while gradients are reduced and weights
    # gathered (not in the micro-batches between), and 23 while tensor-parallel collectives run.
    products() { sort "$1".* | uniq -c | awk -v ORS=' ' '$2 == "product" { $1 = ""; print substr($0, 2) }'; }
    for overlap in dp:112 tp:105 sp:105; do
        [ "$(products "events.${overlap%:*}")" = "product for ${overlap#*:} SMs product for 128 SMs " ] ||
            fail "links and $overlap SMs: $(products "events.${overlap%:*}")"
    done
    # A collective overlaps with the gradient of each column-parallel weight; with sequence parallelism also with that of
    # the layer's input.
    overlapping() { cat "events.$1".* | grep -cx 'product for 105 SMs'; }
    [ $((2 * $(overlapping tp))) = "$(overlapping sp)" ] ||
        fail "products that overlap with collectives: $(overlapping tp), and $(overlapping sp) with sequence parallelism"
    # A kernel that is loaded at its first call waits for the GPU, which may wait for another rank's message.
    grep -Lx 'kernels are loaded: EAGER' events.* >lazy || true
    [ ! -s lazy ] || fail "kernels are loaded late: $(cat lazy)"
    EMULATED_CUDA_LOG=$PWD/alone_events run one.log lm-train "${args[@]}"
    grep -qx 'kernels are loaded: LAZY' alone_events.* || fail "one rank loads all kernels: $(head -n 3 alone_events.*)"
    rm events.*
    EMULATED_CUDA_LOG=$PWD/events.dp layout quiet_dp.log 2 "${zero[@]}"
    [ "$(products events.dp)" = "product product for 116 SMs " ] || fail "data parallelism: $(products events.dp)"
    EMULATED_CUDA_LOG=$PWD/events.tp layout quiet_tp.log 2 "${tp[@]}"
    [ "$(products events.tp)" = "product product for 109 SMs " ] || fail "tensor parallelism: $(products events.tp)"
    rm events.*
    EMULATED_CUDA_LOG=$PWD/events.tp layout quiet_tp.log 2 "${tp[@]}" --tensor-comm-sms 0
    [ "$(products events.tp)" = "product " ] || fail "--tensor-comm-sms 0: $(products events.tp)"
    expect 2 '--tensor-comm-sms: .*-1' lm-train "${args[@]}" --tensor-comm-sms -1
fi

# ---- Code that a library loads at the first use of an algorithm waits for the GPU, which may hold a receive that waits for
# a message. Nothing is loaded after the connections: stages that post receives before their first GEMM, other SMs in the
# last micro-batch, other sequence lengths, evaluations, more micro-batches from step to step, recompute, and collectives of
# tensor ranks. ----
if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    export EMULATED_CUDA_LOADING=1
    round=("${args[@]}" "${pp[@]}" --num-layers-per-virtual-pipeline-stage 1 --bf16 --distributed-timeout-minutes 0.5 --attention-backend fused
        --attention-dropout 0 --hidden-dropout 0)
    grow=(--curriculum-learning-type seqlen --curriculum-min-difficulty 8 --curriculum-total-steps 3)
    EMULATED_CUDA_LOG=$PWD/loads run log ranks 2 lm-train "${round[@]}"
    EMULATED_CUDA_LOG=$PWD/loads run log ranks 4 lm-train "${round[@]}" "${zero[@]}" "${grow[@]}" --global-batch-size 8 \
        --eval-iters 1 --eval-interval 2
    ramp=(--global-batch-size 8 --rampup-batch-size 4 4 8)
    for recompute in full selective; do
        EMULATED_CUDA_LOG=$PWD/loads run log ranks 4 lm-train "${round[@]}" "${tp[@]}" --sequence-parallel "${ramp[@]}" \
            --recompute-granularity $recompute
    done
    [ "$(find . -name 'loads.*' | wc -l)" = 14 ] || fail "no events: $(ls)"
    for file in loads.*; do
        awk '/^loaded: product/ { loaded = 1 } /^loaded: attention/ { attention = 1 } /^NCCL/ { connected = 1 }
            /^loaded/ && connected { print FILENAME ": " $0; bad = 1 }
            END { exit bad || !connected || !loaded || !attention }' "$file" || fail "code is loaded in a step"
    done
    unset EMULATED_CUDA_LOADING
fi

# ---- Many ranks meet at several roots, where NCCL supports it: a communicator of 4 ranks by 2 ids ----
if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    export LM_NCCL_RANKS_PER_ROOT=3
    EMULATED_CUDA_LOG=$PWD/several run log ranks 4 test_conformance --rendezvous --cuda --case all_gather
    [ "$(cat several.* | grep -c "^NCCL: a communicator by 2 ids")" = 4 ] || fail "not by 2 ids: $(cat several.*)"
    EMULATED_NCCL_VERSION=22205 EMULATED_CUDA_LOG=$PWD/single run log ranks 4 test_conformance --rendezvous --cuda \
        --case all_gather
    if cat single.* | grep "ids"; then fail "NCCL 2.22 was given several ids"; fi
    unset LM_NCCL_RANKS_PER_ROOT
fi

# ---- Delayed: as late as CUDA allows, so that a missing dependency between streams changes the figures ----
if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    layout all.log 4 "${tp[@]}" "${pp[@]}"
    export EMULATED_CUDA_DELAY=1
    layout late_dp.log 2 "${zero[@]}"
    layout late_all.log 4 "${tp[@]}" "${pp[@]}" --sequence-parallel
    layout late_mixed.log 4 "${pp[@]}" "${zero[@]}"
    unset EMULATED_CUDA_DELAY
fi

# ---- Failures ----
# Forming a communicator on a GPU that two ranks share, whose driver first loads all kernels, takes time. On an
# emulated GPU, four ranks with their threads need seconds on two busy cores to reach the same point.
# The case one_never_comes waits for the whole timeout, so a longer timeout costs time and proves nothing.
timeout=60
[ -z "${LM_PLUGIN_DIR:-}" ] || timeout=5
failing=(ranks 2 test_conformance --rendezvous --cuda --timeout "$timeout" --case)
expect 3 "rank 1 on .*: the disk is full$" "${failing[@]}" one_gives_up
expect 70 "rank 1 on .*no such file" "${failing[@]}" one_throws
if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    failing[1]=4
    expect 3 "'half': all_reduce\(sum, 10 x fp32\), operation [0-9]+: .* 5 s .*rank 1 of 4; rank 1 on $(hostname) " \
        "${failing[@]}" one_never_comes
    # The rank whose part arrives first is named first.
    ten='rank [023] calls AllReduce\(count 10,[^)]*\)' eleven='rank 1 calls AllReduce\(count 11,[^)]*\)'
    expect 3 "group 'world': .*NCCL: invalid usage: ($ten, but $eleven|$eleven, but $ten)" "${failing[@]}" other_shape
    CUDA_VISIBLE_DEVICES=0 EMULATED_CUDA_DEVICES=1 expect 2 "cuda:0: ranks 0 and 1 .* 0000:" \
        mpirun -n 2 test_conformance --cuda
    # One GPU needs no NCCL; several need a recent one.
    mkdir alone
    cp "$emulated/liblm_cuda.so" alone/
    echo nothing >alone/libnccl.so.2
    LM_PLUGIN_DIR=$PWD/alone run log lm-train "${args[@]}"
    LM_PLUGIN_DIR=$PWD/alone expect 3 'NCCL: .*libnccl.so.2.*NCCL 2.20' \
        mpirun -n 2 test_conformance --cuda
    EMULATED_NCCL_VERSION=21803 expect 3 'NCCL: libnccl.so.2 .*2.18, .*NCCL 2.20' \
        mpirun -n 2 test_conformance --cuda
fi
if [ -n "${LM_PLUGIN_DIR:-}" ]; then
    run log ranks 2 lm-train "${args[@]}"
    grep -Eq '> GPU software CUDA [0-9.]+, driver for CUDA [0-9.]+, cuBLASLt [0-9.]+, NCCL [0-9.]+$' log.err || fail "no libraries: $(cat log.err)"
    grep -q '> devices      cuda (emulated GPU) on each rank$' log.err || fail "no device: $(cat log.err)"
    # An error of one rank names its device. The check of two hosts measures products, and stops nothing.
    expect 3 "^lm-train: rank 1 on $(hostname), cuda:1 \(emulated GPU\): .* free" mpirun -n 1 \
        lm-train "${args[@]}" : -n 1 -x EMULATED_CUDA_MEMORY=1 lm-train "${args[@]}"
    expect 3 "^lm-train: rank 1 on b, cuda:1 .*: .*matrix products" mpirun -n 1 -x LM_HOST=a \
        lm-train "${args[@]}" : -n 1 -x LM_HOST=b -x EMULATED_CUDA_MEMORY=1 lm-train "${args[@]}"
fi
echo "groups of GPUs, and training in ${LM_PLUGIN_DIR:+emulated }layouts"
