#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Local saves in which any operation on files of a host fails, writes only a part, or is the last one before a kill. A run
# that a fault ended resumes without one of its hosts, loses at most 2 iterations, and ends with the bits of an undisturbed run.
# Tests every $2-th operation, by default all.
# labels: proof;mpi
# timeout: 14400
here=$(dirname "$(realpath "$0")")
every=${2:-1}
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
# shellcheck source=tests/e2e/tiers.bash
. "$here/tiers.bash"

args+=(--train-iters 6 --save-interval 4)
train "a b c d" --save whole >out 2>err || fail "$(cat err)"
n_runs=0
for fault_host in a d; do # rank 0, and a rank that only writes
    n_operations=0
    for action in kill fail short; do
        for ((k = 1; ; k += every)); do
            [ $n_operations = 0 ] || [ $k -le $n_operations ] || break
            rm -rf run local
            code=0
            fault=$action:$k tiers "a b c d" || code=$?
            n_runs=$((n_runs + 1))
            if [ $code = 0 ]; then
                if [ $action = kill ]; then
                    n_operations=$k
                    break
                fi
            else
                reached=$(grep -o '^ iteration *[0-9]*' out | tail -n1 | tr -dc 0-9) || reached=0
                lost=$(printf 'a\nb\nc\nd\n' | sed -n "$((k % 4 + 1))p")
                rm -rf "local/$lost"
                fault='' tiers "a b c d" || fail "$fault_host, $action:$k: $(cat err)"
                from=$(grep -oE '(resuming|finished already,) after iteration [0-9]*' err | tr -dc 0-9) || from=0
                [ "${from:-0}" -ge $((${reached:-0} - 2)) ] || fail "$fault_host, $action:$k: from $from, but $reached iterations were done"
            fi
            ends_with_same_bits "$fault_host, $action:$k"
        done
        [ $n_operations -gt 60 ] || fail "$fault_host, $action: the operations ended at $n_operations"
    done
    echo "host $fault_host: $n_operations operations"
done
echo "$n_runs runs with a fault"
