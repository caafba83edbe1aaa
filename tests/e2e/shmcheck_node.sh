#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-shmcheck --node: one host alone; three hosts (ranks with names of their own) of which one has a low limit.
# labels: e2e;mpi
# timeout: 120
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

expect 2 " $work: .*--node" lm-shmcheck "$work"
expect 2 "--node: .*--json" lm-shmcheck --node --stale
expect 1 "" lm-shmcheck --node "$work" "$work/missing"
grep -Eq "^$(hostname) +[+-]0\.0.* 1/2$" out || fail "table: $(cat out)"
grep -q "^$(hostname): .*missing" out || fail "no missing directory: $(cat out)"
[ "$(tail -n 1 out)" = "--exclude=$(hostname)" ] || fail "last line: $(cat out)"
[ -z "$(find . -name '.lm-node-check*')" ] || fail "left behind: $(ls -A)"

if [ "$(id -u)" != 0 ] || ! unshare -u true 2>/dev/null; then
    echo "one host only: no namespaces"
    exit 0
fi
# shellcheck disable=SC2016
node='hostname n$OMPI_COMM_WORLD_RANK; [ $OMPI_COMM_WORLD_RANK != 1 ] || ulimit -n 321; exec lm-shmcheck --node "$@"'
expect 1 "" mpirun -n 3 unshare -u sh -c "$node" sh "$work"
[ "$(grep -Ec '^n[0-2] .* 1/1$' out)" = 3 ] || fail "no three hosts: $(cat out)"
[ "$(grep -Ec '^n[0-2] .* [0-9.]+ [KMGT]iB/s +[0-9.]+ [KMGT]iB/s$' out)" = 3 ] || fail "no speeds of three hosts: $(cat out)"
[ "$(wc -L <out)" -le 80 ] || fail "a line of more than 80 columns: $(cat out)"
grep -Eq '^n1: limit of open files 321, [0-9]+ on most hosts$' out || fail "n1 is not named: $(cat out)"
grep -q -- '^--exclude=n.*1' <<<"$(tail -n 1 out)" || fail "last line: $(cat out)"
expect 1 "" mpirun -n 3 unshare -u sh -c "$node" sh --json "$work"
cp out json
code=0
lm-shmcheck --summary <json >out || code=$?
[ $code = 1 ] || fail "--summary: exit $code: $(cat out)"
grep -Eq '^node check: 3 hosts, [1-3] with findings$' out || fail "--summary: $(cat out)"
grep -q -- '^--exclude=n.*1' <<<"$(tail -n 1 out)" || fail "--summary: $(cat out)"
echo "the odd host was named"
