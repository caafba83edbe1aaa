#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that meet over TCP, as torchrun-like launchers start them: the conformance suite, failures that end a job, and
# training on (emulated) GPUs without MPI.
# timeout: 600
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
unset LM_PLUGIN_DIR

# start N COMMAND...: starts the ranks in the background, the last one first; sets pids. Outputs in out.R, err.R.
start() {
    local n=$1 rank
    shift
    pids=()
    rm -f out.* err.* # outputs of an earlier job
    : >out.0
    local port
    port=$(free_ports 1)
    for ((rank = n - 1; rank >= 0; rank--)); do
        RANK=$rank WORLD_SIZE=$n LOCAL_RANK=$rank MASTER_ADDR=localhost MASTER_PORT=$port \
            "$@" >"out.$rank" 2>"err.$rank" </dev/null &
        pids[rank]=$!
    done
}
# ended CODE PATTERN: all ranks have ended, one of them with that code, one of them with a matching line. Sets codes.
ended() {
    local rank code
    codes=()
    for rank in "${!pids[@]}"; do
        code=0
        wait "${pids[rank]}" || code=$?
        codes+=("$code")
    done
    [[ " ${codes[*]} " == *" $1 "* ]] || fail "exits ${codes[*]}, wanted $1: $(cat err.*)"
    [ -z "$2" ] || cat err.* | grep -E -- "$2" >found || fail "no '$2' in: $(cat err.*)"
}
# same_codes CODE: all ranks have ended with that code.
same_codes() {
    local code
    for code in "${codes[@]}"; do
        [ "$code" = "$1" ] || fail "exits ${codes[*]}, wanted $1 alone: $(cat err.*)"
    done
}

for n in 2 4; do
    start $n test_conformance --rendezvous
    ended 0 ""
    [[ $(tail -n 1 out.0) == "$n ranks, met at localhost:"* ]] || fail "$n ranks: $(cat out.0 err.*)"
done

conformance=(test_conformance --rendezvous --timeout 60 --case)
start 4 "${conformance[@]}" one_gives_up
ended 3 "rank 1 on .*: the disk is full$"
start 4 "${conformance[@]}" one_throws
ended 70 "rank 1 on .*no such file"
same_codes 70
grep -q "rank 1 on .*: internal error: no such file" err.0 || fail "rank 0 does not state it: $(cat err.0)"
start 4 "${conformance[@]}" one_stops
ended 4 "rank 1 on .*the kill switch is set"
same_codes 4
# Eight ranks, each with an error: only the first error is printed, by its rank and again by rank 0.
start 8 "${conformance[@]}" all_throw
ended 3 "data/[0-7].bin: cannot be read"
printed=$(cat err.* | grep -o "data/[0-7].bin: cannot be read" | sort -u | wc -l)
[ "$printed" = 1 ] || fail "$printed errors printed instead of the first: $(cat err.*)"
[ "$(cat err.* | grep -c "cannot be read")" -le 2 ] || fail "printed by more than two: $(cat err.*)"
start 4 test_conformance --rendezvous --timeout 4 --case one_never_comes
ended 3 "'half': all_reduce\(sum, 10 x fp32\), operation 0: .* 4 s .*rank 1 of 4; rank 1 on $(hostname) "
start 4 "${conformance[@]}" other_operation
ended 70 "rank . .*all_reduce\(sum, 10 x fp32\), .*rank 1 .*all_gather\(10 x fp32\)|rank 1 .*all_gather\(10 x fp32\), .*rank . "
start 4 "${conformance[@]}" other_message
ended 70 "receive\(11 x fp32 from rank 0\): .*44 bytes, got 40"

# A rank that dies, and one that never starts.
start 4 "${conformance[@]}" forever
until [ "$(wc -l <out.0)" = 4 ]; do
    kill -0 "${pids[0]}" 2>/dev/null || fail "no start: $(cat err.*)"
    sleep 0.05
done
kill -9 "${pids[2]}"
ended 3 "rank 2 on $(hostname): .*process"
# Rank 0 dies: another rank reports it.
start 4 "${conformance[@]}" forever
until [ "$(wc -l <out.0)" = 4 ]; do
    kill -0 "${pids[0]}" 2>/dev/null || fail "no start: $(cat err.*)"
    sleep 0.05
done
kill -9 "${pids[0]}"
ended 3 "rank 1 on $(hostname): .*rank 0 at localhost"
expect 3 " 1 s .*ranks 1, 2 of 3" \
    env RANK=0 WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT="$(free_ports 1)" test_conformance --rendezvous --timeout 1

# Training.
args=(--mock-data --vocab-size 64 --seed 5 --threads 1 --num-layers 2 --hidden-size 16 --num-attention-heads 2
    --seq-length 16 --micro-batch-size 1 --global-batch-size 4 --train-iters 2 --lr 3e-3 --log-interval 1 --eval-iters 0)
expect 2 "WORLD_SIZE: 2 ranks .*MPI" env RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost \
    MASTER_PORT=20000 lm-train "${args[@]}" --device cpu
# Without a GPU, --device auto is refused before the ranks are connected.
expect 2 "WORLD_SIZE: 2 ranks .*MPI" env CUDA_VISIBLE_DEVICES= RANK=0 LOCAL_RANK=0 \
    WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT="$(free_ports 1)" lm-train "${args[@]}" --device auto
# SIGTERM ends a rank that waits for the others. The file of the token, which only the user can read, disappears.
RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT="$(free_ports 1)" \
    lm-train "${args[@]}" --device cuda --save waits >out.0 2>err.0 </dev/null &
pids=($!)
until compgen -G "waits/rendezvous.tmp.*" >found; do
    kill -0 "${pids[0]}" 2>/dev/null || fail "no rendezvous: $(cat err.0)"
    sleep 0.05
done
[ "$(stat -c %a "$(cat found)")" = 600 ] || fail "mode of the token: $(ls -l waits)"
kill -TERM "${pids[0]}"
ended 75 "rendezvous at localhost:.*SIGTERM"
[ ! -e waits ] || fail "left behind: $(find waits)"
emulated=$(realpath "$bin/../tests/emulated_cuda")
if [ -e "$emulated/liblm_cuda.so" ]; then
    export LM_PLUGIN_DIR=$emulated
    run one.log lm-train "${args[@]}" --device cuda
    start 2 lm-train "${args[@]}" --device cuda --tensor-model-parallel-size 2 --save saved
    ended 0 ""
    figures() { grep -oE '(lm loss|grad norm): [^ ]+' "$1" | sed 's/.*: //'; }
    [ "$(figures out.0 | wc -l)" = 4 ] || fail "not 2 steps: $(cat out.0 err.*)"
    paste <(figures one.log) <(figures out.0) |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > 1e-3 * $1) { print; exit 1 } }' || fail "other losses"
    lm-ckpt verify saved >verified || fail "lm-ckpt verify: $(cat verified)"

    # The machine of one rank stops while NCCL connects, so that NCCL's call does not return: the error names this rank and
    # the pending operation. The test kills the rank that waits in the call.
    EMULATED_NCCL_LOST=1 start 2 test_conformance --rendezvous --cuda --timeout 6 --case all_gather
    code=0
    wait "${pids[0]}" || code=$?
    kill -9 "${pids[1]}"
    [ $code = 3 ] || fail "exit $code, wanted 3: $(cat err.*)"
    grep -qE "warming up: all_reduce\(sum, 64 x uint8\), operation [0-9]+: .* 6 s .*rank 1 of 2; rank 1 on $(hostname) " \
        err.0 || fail "not named: $(cat err.*)"
fi
echo "2 and 4 ranks over TCP; failures are named"
