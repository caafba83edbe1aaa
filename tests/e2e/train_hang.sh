#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank is stopped at a random time of a step, an evaluation or a save. The error of the timeout names this rank with its state,
# every rank dumps its flight recorder, and --explain names the rank, too. $2 is the number of runs (by default 4), $3
# the number of ranks (by default 3).
# labels: e2e;mpi
# timeout: 300
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
n_runs=${2:-4}
n_ranks=${3:-3}

make_corpus corpus.jsonl 300
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
args=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 48 --micro-batch-size 1
    --global-batch-size $((2 * n_ranks)) --train-iters 1_000_000 --lr 1e-3 --log-interval 1
    --data-path data_text_document --threads 1 --distributed-timeout-minutes 0.1)
# Each run spends most of its time in one phase, so that a random moment is probably in that phase.
step=(--eval-iters 0)
evaluation=(--eval-interval 2 --eval-iters 200)
save=(--eval-iters 0 --save-interval 1 --save-retain keep-last=1 --async-save off)
# A chain of messages: a stage waits for a second stage, which waits for the stopped one.
pipeline=(--eval-iters 0 --num-layers "$n_ranks" --pipeline-model-parallel-size "$n_ranks")

# stopped_run PHASE FLAGS...: stops one rank at a random time.
stopped_run() {
    local phase=$1 launcher victim rank dumps pids
    shift
    rm -rf run hang.log
    mpirun -n "$n_ranks" lm-train "${args[@]}" "$@" --save run >hang.log 2>hang.err &
    launcher=$!
    until [ -s hang.log ]; do
        kill -0 $launcher 2>/dev/null || fail "$phase: no start: $(cat hang.err)"
        sleep 0.1
    done
    sleep "0.$((RANDOM % 90 + 10))"
    mapfile -t pids < <(ps -o pid= --ppid $launcher)
    victim=${pids[RANDOM % ${#pids[@]}]}
    rank=$(tr '\0' '\n' <"/proc/$((victim))/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
    kill -STOP $((victim))
    local code=0
    wait $launcher || code=$?
    [ $code = 3 ] || fail "$phase: exit $code: $(cat hang.err)"
    grep -Eq "timed out after [0-9]+ s .*rank $rank on $(hostname) .*recorder shows [a-z]" hang.err ||
        fail "$phase: rank $rank is not named: $(cat hang.err)"
    dumps=$(echo run/flight-recorder/*)
    [ "$(find "$dumps" -name 'rank-*.jsonl' | wc -l)" = "$n_ranks" ] || fail "$phase: dumps: $(ls "$dumps")"
    lm-train --explain "$dumps" >story || fail "$phase: --explain: exit $?"
    grep -q "^rank $rank on $(hostname) diverged first: " story || fail "$phase: rank $rank: $(cat story hang.err)"
    [ "$(grep -c 'diverged first' story)" = 1 ] || fail "$phase: several ranks: $(cat story)"
    sed -n "s/.*the diverged rank was in/  $phase, rank $rank: /p" story
}

for ((i = 0; i < n_runs; i++)); do
    case $((i % 4)) in
        0) stopped_run step "${step[@]}" ;;
        1) stopped_run evaluation "${evaluation[@]}" ;;
        2) stopped_run save "${save[@]}" ;;
        3) stopped_run pipeline "${pipeline[@]}" ;;
    esac
done
# --explain names a damaged dump, and explains the hang from the dumps of the other ranks.
damaged=$(find run/flight-recorder -name 'rank-*.jsonl' | sort | tail -n 1)
echo '{"kind":' >"$damaged"
expect 3 "warning: $damaged: " lm-train --explain "$(dirname "$damaged")"
grep -q 'rank [0-9]' out || fail "a damaged dump hides the story: $(cat out)"
expect 2 "^lm-train: nothing.jsonl: " lm-train --explain nothing.jsonl
! grep -q warning out || fail "the problem of nothing.jsonl is printed twice: $(cat out)"
echo '{' >broken.jsonl
expect 3 "^lm-train: .* 2 dumps" lm-train --explain "$damaged" broken.jsonl
echo "$n_runs stopped ranks were named with their state"
