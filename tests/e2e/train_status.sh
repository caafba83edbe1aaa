#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-train --status-file has the states of a run and each way to end. A superseded run leaves the file to the newer run.
# labels: mpi
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

args=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 100
    --micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --threads 1 --eval-iters 0 --log-interval 5
    --save run --load run --save-interval 1000 --status-file run/status.json
    --log-file run/log --log-json run/log.json)
has() { # EXPRESSION: of jq, true for the file
    [ "$(jq "$1" run/status.json)" = true ] || fail "not $1: $(cat run/status.json)"
}
trains() { jq -e '.state == "running" and .iteration >= 5' run/status.json >/dev/null 2>&1; }

# A run that is stopped. Its directory, which has the logs too, does not exist before.
lm-train "${args[@]}" --train-iters 1000000 >/dev/null 2>err &
training=$!
until trains; do kill -0 $training || fail "$(cat err)"; sleep 0.02; done
has '.exit_code == null and .total_iterations == 1000000 and .step_s > 0 and .ranks == 1 and .generation == 1'
has '.due > now and .due < now + 100 and .time <= now and .save == "run"'
kill -USR1 $training
code=0
wait $training || code=$?
[ $code = 75 ] || fail "exit $code: $(cat err)"
has '.state == "stopped" and .exit_code == 75 and (.reason | test("SIGUSR1")) and .due == null'
has '.iteration == .saved_iteration and .iteration > 4'
run_id=$(jq -r .run_id run/status.json)

# Two ranks continue it and are superseded by a third start: exit code 77, and the file belongs to the newer run.
OMPI_MCA_rmaps_base_oversubscribe=1 mpirun -n 2 lm-train "${args[@]}" --train-iters 1000000 --save-switch-path switch \
    >/dev/null 2>err &
training=$!
until trains; do kill -0 $training || fail "$(cat err)"; sleep 0.02; done
has '.generation == 2 and .ranks == 2 and .run_id == "'"$run_id"'"'
lm-train "${args[@]}" --train-iters 1000000 >/dev/null 2>newer &
newer=$!
until jq -e '.generation == 3' run/status.json >/dev/null 2>&1 && trains; do kill -0 $newer || fail "$(cat newer)"; sleep 0.02; done
touch switch
code=0
wait $training || code=$?
[ $code = 77 ] || fail "superseded: exit $code: $(cat err)"
grep -q '(generation 3' err || fail "superseded: $(cat err)"
has '.generation == 3'
kill -9 $newer
wait $newer 2>/dev/null || true
has '.state == "running" and .generation == 3' # a killed process writes nothing: `due` passes

# A rollback supersedes a run. No newer run writes the file, so the superseded run writes its end into the file.
lm-train "${args[@]}" --train-iters 1000000 --save-switch-path switch >/dev/null 2>err &
training=$!
until trains && jq -e '.generation == 4' run/status.json >/dev/null; do kill -0 $training || fail "$(cat err)"; sleep 0.02; done
lm-ckpt latest run "$(head -n 1 run/latest)" >/dev/null 2>&1
touch switch
code=0
wait $training || code=$?
[ $code = 77 ] || fail "superseded by a rollback: exit $code: $(cat err)"
has '.state == "failed" and .exit_code == 77 and (.reason | test("newer run"))'

# Errors: not finite, wrong flags, and the kill switch.
expect 4 'iteration [0-9]+: loss ' \
    lm-train "${args[@]}" --train-iters 1000000 --lr 1e38 --clip-grad 0 --override-opt_param-scheduler
has '.state == "failed" and .exit_code == 4 and (.reason | test("not both finite")) and .rank == 0 and .generation == 6'
expect 2 'model|--hidden-size' lm-train "${args[@]}" --train-iters 1000000 --hidden-size 32
has '.state == "failed" and .exit_code == 2 and (.iteration | not)'
touch kill
expect 76 '' lm-train "${args[@]}" --train-iters 1000000 --kill-switch-path kill
has '.state == "stopped" and .exit_code == 76 and (.reason | test("--kill-switch-path"))'
has '.iteration > 4 and .consumed_samples == .iteration * 2'
rm kill
expect 0 '' lm-train "${args[@]}" --train-iters 1000000 --exit-iteration 1
has '.state == "finished" and .exit_code == 0 and .iteration > 4'

# A run of a finished training, or with the kill switch, ends before it reads the weights, even if they are corrupt.
last=$(head -n 1 run/latest | tr -dc 0-9)
mv "run/global_step$last" whole
cp -r whole "run/global_step$last"
for file in "run/global_step$last"/*.safetensors; do dd if=/dev/urandom of="$file" bs=1 count=64 seek=20000 conv=notrunc status=none; done
expect 0 "note: .*finished.* iteration $last" lm-train "${args[@]}" --train-iters "$last" \
    --override-opt_param-scheduler
has '.state == "finished" and .iteration == '"$last"' and .reason == "the training is finished already"'
touch kill
expect 76 "kill .* iteration $last " lm-train "${args[@]}" --train-iters 1000000 --kill-switch-path kill
has '.state == "stopped" and .iteration == '"$last"' and .run_id == "'"$run_id"'" and .generation > 0'
rm -r "run/global_step$last"
mv whole "run/global_step$last"

# A plan writes nothing.
rm run/status.json
expect 0 '' lm-train "${args[@]}" --train-iters 1000000 --print-config
nothing_under status.json
echo "status file: running, stopped, superseded, killed, failed, finished"
