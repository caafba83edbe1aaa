#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank that is stopped half of the time is named as the slow one, in a warning and in the table at the end; the
# phases of a step, the norm of the weights and the zeros of the gradients are in the logs.
# labels: e2e;mpi
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

args=(--mock-data --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --vocab-size 200
    --micro-batch-size 2 --lr 1e-3 --threads 1 --eval-iters 0 --log-params-norm --log-num-zeros-in-grad)
mpirun -n 3 lm-train "${args[@]}" --global-batch-size 12 --train-iters 1_000_000 --log-interval 5 --log-json log.json \
    --log-timers-to-tensorboard --tensorboard-dir tb >log 2>err &
launcher=$!
until [ -s log ]; do kill -0 $launcher || fail "$(cat err)"; sleep 0.05; done
mapfile -t pids < <(ps -o pid= --ppid $launcher)
victim=$((pids[1]))
rank=$(tr '\0' '\n' <"/proc/$victim/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
for _ in $(seq 200); do
    kill -STOP $victim
    sleep 0.1
    kill -CONT $victim
    sleep 0.05
    ! grep -q "rank $rank on $(hostname): slow: " err || break
done
kill -USR2 $launcher 2>/dev/null || true
kill -TERM "${pids[0]}"
wait $launcher || true
grep -q "warning: rank $rank on $(hostname): slow: .* [0-9.]* times" err ||
    fail "rank $rank is not named: $(cat err)"
grep -q " | num zeros: [0-9.]* | params norm: [0-9.]* |" log || fail "$(head -1 log)"
jq -se 'map(select(.kind == "phases")) | length > 1 and .[0].forward_s > 0 and .[0].backward_s > 0 and .[0].data_s > 0' log.json >/dev/null ||
    fail "phases: $(cat log.json)"

# One rank and two ranks log the same norms and numbers of zeros.
norms() { sed -nE 's/.*(num zeros: [^|]*\| params norm: [^ ]*).*/\1/p' "$1"; }
run one.log lm-train "${args[@]}" --global-batch-size 4 --train-iters 60 --log-interval 20
run two.log mpirun -n 2 lm-train "${args[@]}" --global-batch-size 4 --train-iters 60 --log-interval 20 --use-distributed-optimizer
diff <(norms one.log) <(norms two.log) || fail "other norms on two ranks"
[ "$(norms one.log | wc -l)" = 3 ] || fail "$(cat one.log)"

# Megatron's lines of the times of the phases, after each line of the log.
run timing.log lm-train "${args[@]}" --global-batch-size 4 --train-iters 4 --log-interval 2 --timing-log-level 1
[ "$(grep -c '^(min, max) time across ranks (ms):$' timing.log)" = 2 ] || fail "--timing-log-level: $(cat timing.log)"
for phase in data forward backward reduction optimizer; do
    [ "$(grep -Ec "^    $phase \\.+: \([0-9.]+, [0-9.]+\)$" timing.log)" = 2 ] || fail "--timing-log-level: no $phase: $(cat timing.log)"
done
grep -q "note: rank .* $(hostname) .* ratio [0-9.]* | data [0-9.]* forward [0-9.]* .* | memory" two.log.err || fail "table: $(cat two.log.err)"
echo "a slow rank is named; phases, norms and zeros are logged"
