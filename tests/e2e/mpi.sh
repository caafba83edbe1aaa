#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Groups of ranks over real MPI: the conformance suite, and failures that end a job.
# labels: e2e;mpi
# timeout: 600
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

for n in 2 4 8; do
    run "log$n" mpirun -n $n test_conformance
    grep -q "^$n ranks, Open MPI" "log$n" || fail "$n ranks: $(cat "log$n")"
done
run log mpirun -n 3 test_conformance --max-count 777 # operations in pieces
run log mpirun -n 4 test_conformance --check
run log mpirun -n 1 test_conformance
[ "$(tail -n 1 log)" = "1 rank" ] || fail "MPI for one rank: $(tail -n 1 log)"

# A launcher that this MPI does not support: each of four processes runs as a job of one rank.
expect 2 "mpirun: .*4 ranks, .* 1" env PMI_SIZE=4 PMI_RANK=0 test_conformance

# Each failure ends the whole job with its exit code and a line that names it.
conformance=(mpirun -n 4 test_conformance --timeout 60 --case)
expect 3 "rank 1 on .*: the disk is full$" "${conformance[@]}" one_gives_up
expect 70 "rank 1 on .*no such file" "${conformance[@]}" one_throws
expect 3 "'half': all_reduce\(sum, 10 x fp32\), operation 0: .* 5 s .*rank 1 of 4; rank 1 on $(hostname) " \
    mpirun -n 4 test_conformance --timeout 5 --case one_never_comes
expect 70 "operation 1: rank 0 .*all_reduce\(sum, 10 x fp32\), .*rank 1 .*all_gather\(10 x fp32\)" \
    "${conformance[@]}" other_operation --check
expect 70 "operation 0: rank 0 .*all_reduce\(sum, 10 x fp32\), .*rank 1 .*all_reduce\(sum, 11 x fp32\)" \
    "${conformance[@]}" other_shape --check
expect 70 "receive\(11 x fp32 from rank 0\): .*11 elements, got 10" "${conformance[@]}" other_message
expect 3 "data/0.bin: cannot be read" "${conformance[@]}" all_throw
[ "$(grep -c "cannot be read" err)" = 1 ] || fail "not printed once: $(cat err)"
expect 2 "'nonsense'" "${conformance[@]}" nonsense

# start_forever TIMEOUT: starts 4 ranks that work until they are killed; sets launcher, pids.
start_forever() {
    rm -f pids
    mpirun -n 4 test_conformance --timeout "$1" --case forever >pids 2>err </dev/null &
    launcher=$!
    until [ "$(wc -l <pids)" = 4 ]; do
        kill -0 $launcher 2>/dev/null || fail "no start: $(cat err)"
        sleep 0.05
    done
    mapfile -t pids <pids
}

# ended PATTERN: the job has failed with a matching line, and no rank still runs.
ended() {
    local code=0 pid
    wait $launcher || code=$?
    [ $code != 0 ] || fail "exit 0: $(cat err)"
    grep -Eq -- "$1" err || fail "no '$1' in: $(cat err)"
    for pid in "${pids[@]}"; do
        for _ in {1..600}; do # mpirun ends shortly before the last ranks that it has killed
            [[ $(ps -o stat= -p "$pid") =~ ^(Z.*)?$ ]] && continue 2
            sleep 0.05
        done
        fail "process $pid is left"
    done
}

start_forever 600
kill -9 "${pids[2]}"
ended "process rank 2 .* signal 9"

# A rank that hangs: the other ranks notice it after the timeout and end the job.
start_forever 5
kill -STOP "${pids[2]}"
ended "all_reduce\(sum, 1000 x fp32\), operation [0-9]+: .* [0-9]+ s .*rank 2 of 4; rank 2 on $(hostname) "
echo "2, 4 and 8 ranks; failures are named"
