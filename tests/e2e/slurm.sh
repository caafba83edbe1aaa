#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks started by srun of a real Slurm: the conformance suite on two nodes, and failures that end a step.
# labels: mpi;long
# timeout: 300
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
# shellcheck source=tests/e2e/slurm_box.bash
. "$here/slurm_box.bash"

start_slurm 2 2
run log srun -N 2 -n 4 --mpi=pmix test_conformance
grep -q "^4 ranks, Open MPI" log || fail "4 ranks: $(cat log)"
run log srun -n 1 --mpi=pmix test_conformance
[ "$(tail -n 1 log)" = "1 rank" ] || fail "MPI for one rank: $(tail -n 1 log)"

expect 2 "srun: .*4 tasks .*srun --mpi=pmix" \
    srun -n 4 --mpi=none test_conformance
# Without MPI the ranks meet over TCP, with --rendezvous. MASTER_ADDR is set, because no resolver knows the names of the nodes.
MASTER_ADDR=localhost run log srun -N 2 -n 4 --mpi=none test_conformance --rendezvous
grep -q "^4 ranks, met at localhost:" log || fail "4 ranks over TCP: $(cat log)"
expect 3 " 5 s .*rank 1 of 4; rank 1 on $(hostname) " \
    srun -N 2 -n 4 --mpi=pmix test_conformance --timeout 5 --case one_never_comes
expect 70 "rank 1 on .*no such file" srun -N 2 -n 4 --mpi=pmix test_conformance --case one_throws

# kill -9 of one rank ends the step.
srun -N 2 -n 4 --mpi=pmix test_conformance --case forever >pids 2>err </dev/null &
step=$!
until [ "$(wc -l <pids)" = 4 ]; do alive; done
mapfile -t pids <pids
kill -9 "${pids[2]}"
code=0
wait $step || code=$?
[ $code != 0 ] || fail "a killed rank: exit 0"
for pid in "${pids[@]}"; do
    for _ in {1..600}; do
        [[ $(ps -o stat= -p "$pid") =~ ^(Z.*)?$ ]] && continue 2
        sleep 0.05
    done
    fail "process $pid is left"
done
echo "srun --mpi=pmix on 2 nodes; exit $code after a killed rank"
