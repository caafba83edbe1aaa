#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Time limits leave time for the last save: the end of a Slurm job, and a duration within which an evaluation begins. A resumed
# run repeats an evaluation that was ended. The third start in a row that saves nothing exits with code 4.
# labels: e2e
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
[ ! -e "${bin:?}/../lib/liblm_mpi.so" ] || . "$here/mpirun.bash"

args=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 100
    --micro-batch-size 1 --global-batch-size 1 --lr 1e-3 --threads 1 --log-interval 1)
values() { sed -nE 's/.*iteration +([0-9]+)\/.*(lm loss: [^ ]+).*/\1 \2/p; s/.*(validation loss at .*)/\1/p' "$1"; }

# The job ends in 62 s. The run stops and saves 60 s before that end.
now=$(date +%s)
expect 75 'note: SLURM_JOB_END_TIME: ' env SLURM_JOB_END_TIME=$((now + 62)) \
    lm-train "${args[@]}" --train-iters 1_000_000 --eval-iters 0 --save job
grep -q -- '--exit-before-limit 60s: .*iteration' err || fail "job limit: $(cat err)"
[ "$(date +%s)" -le $((now + 62)) ] || fail "the run ended after the job"
[ -e job/latest ] || fail "nothing was saved"
expect 0 'SLURM_JOB_END_TIME: ignored' env SLURM_JOB_END_TIME=$((now - 9)) \
    lm-train "${args[@]}" --train-iters 3 --eval-iters 0 --save past
expect 0 '' env SLURM_JOB_END_TIME=$((now + 5)) \
    lm-train "${args[@]}" --train-iters 3 --eval-iters 0 --save off --exit-before-limit off
expect 2 "--exit-before-limit: 'soon' " lm-train "${args[@]}" --train-iters 3 --exit-before-limit soon

# The time is over during an evaluation: the run saves in time, and the resumed run makes that evaluation.
start=$(date +%s%N)
expect 75 '--exit-duration-in-mins 0.08: .*iteration 2 of 4' lm-train "${args[@]}" --train-iters 4 \
    --eval-interval 2 --eval-iters 1_000_000 --save long --exit-duration-in-mins 0.08
[ $((($(date +%s%N) - start) / 1000000)) -lt 30000 ] || fail "the run ended after its duration"
jq -e '.iteration == 2' long/pending-evaluation.json >/dev/null || fail "no evaluation is pending"
expect 0 '' lm-train "${args[@]}" --train-iters 4 --eval-interval 2 --eval-iters 3 --save long --load long
cp out resumed.log
run whole.log lm-train "${args[@]}" --train-iters 4 --eval-interval 2 --eval-iters 3
diff <(values whole.log | sed 1,2d) <(values resumed.log) || fail "the resumed run has other lines"
[ ! -e long/pending-evaluation.json ] || fail "the evaluation is pending still"

# The evaluation after the last iteration: ended by the time limit, by a signal, and by kill -9. The training is finished,
# but only the resumed run has the line of that evaluation, and ends with 0.
for how in limit TERM KILL; do
    last=("${args[@]}" --train-iters 4 --eval-interval 4 --save "last-$how" --load "last-$how")
    case $how in
        limit) expect 75 '--exit-duration-in-mins 0.08: .*iteration 4 of 4' \
            lm-train "${last[@]}" --eval-iters 1_000_000 --exit-duration-in-mins 0.08 ;;
        *)
            lm-train "${last[@]}" --eval-iters 1_000_000 >last.log 2>last.err &
            pid=$!
            until [ -e last-$how/pending-evaluation.json ] && grep -q 'global_step4: saved' last.err; do
                kill -0 $pid || fail "$how: no evaluation: $(cat last.err)"
                sleep 0.02
            done
            kill -$how $pid
            got=0
            wait $pid || got=$?
            [ "$how-$got" = TERM-75 ] || [ "$how-$got" = KILL-137 ] || fail "$how: exit $got: $(cat last.err)"
            ;;
    esac
    expect 0 '' lm-train "${last[@]}" --eval-iters 3
    diff <(values whole.log | tail -n 1) <(values out) || fail "$how: the last evaluation is not repeated: $(cat out err)"
    expect 0 'note: .*finished' lm-train "${last[@]}" --eval-iters 3
    ! grep -q 'validation loss' out || fail "$how: a second evaluation"
done

# A signal ends a step between two micro-batches; the resumed run repeats the step.
step=("${args[@]}" --global-batch-size 30000 --train-iters 3 --eval-iters 0)
run steps.log lm-train "${step[@]}"
for ranks in 1 2; do
    launch=()
    [ $ranks = 1 ] || launch=(mpirun -n 2)
    [ $ranks = 1 ] || [ -e "$bin/../lib/liblm_mpi.so" ] || continue
    "${launch[@]}" lm-train "${step[@]}" --save mid$ranks >mid.log 2>mid.err &
    pid=$!
    until grep -q 'iteration  *1/' mid.log; do kill -0 $pid || fail "no first step: $(cat mid.err)"; sleep 0.02; done
    pkill -TERM -P $pid lm-train || kill -TERM $pid
    got=0
    wait $pid || got=$?
    [ $got = 75 ] || fail "SIGTERM in a step: exit $got: $(cat mid.err)"
    grep -q 'SIGTERM: .*Ctrl-C, .* SIGTERM .* 10 s' mid.err ||
        fail "no answer: $(cat mid.err)"
    grep -q 'SIGTERM: .*iteration 1 of 3' mid.err || fail "the step was not ended: $(cat mid.err)"
    run mid.log lm-train "${step[@]}" --save mid$ranks --load mid$ranks
    diff <(values steps.log | sed 1d) <(values mid.log) || fail "the resumed run has other losses"
done

# A signal within the only batch of a long evaluation; the resumed run repeats the evaluation.
large=("${args[@]}" --train-iters 2 --eval-interval 2 --eval-iters 1 --eval-global-batch-size 3_000_000)
for ranks in 1 2; do
    launch=()
    [ $ranks = 1 ] || launch=(mpirun -n 2)
    [ $ranks = 1 ] || [ -e "$bin/../lib/liblm_mpi.so" ] || continue
    "${launch[@]}" lm-train "${large[@]}" --global-batch-size 2 --save large$ranks >large.log 2>large.err &
    pid=$!
    until [ -e large$ranks/pending-evaluation.json ]; do kill -0 $pid || fail "no evaluation: $(cat large.err)"; sleep 0.02; done
    sleep 1
    pkill -TERM -P $pid lm-train || kill -TERM $pid
    got=0
    wait $pid || got=$?
    [ $got = 75 ] || fail "SIGTERM in an evaluation: exit $got: $(cat large.err)"
    jq -e '.iteration == 2' large$ranks/pending-evaluation.json >/dev/null || fail "the evaluation was not ended: $(cat large.log)"
done

# A job array whose tasks die before the first save.
for code in 137 137 4; do
    got=0
    rm -f log
    lm-train "${args[@]}" --train-iters 1_000_000 --eval-iters 0 --save crash --load crash >log 2>err &
    pid=$!
    [ "$code" = 4 ] || { until [ -s log ] 2>/dev/null; do sleep 0.02; done; kill -9 $pid; }
    wait $pid 2>/dev/null || got=$?
    [ $got = "$code" ] || fail "exit $got, wanted $code: $(cat err)"
done
grep -q ' crash/starts-without-step.json: 2 .*iteration 0 ' err ||
    fail "the third start: $(cat err)"
rm crash/starts-without-step.json
# A start that exits with 75 without a new step counts too, and saves its state. Its reasons: a signal before the first step, and
# a time limit within the evaluation that each start repeats.
for code in 75 75 4; do
    got=0
    lm-train "${args[@]}" --global-batch-size 1_000_000 --train-iters 3 --eval-iters 0 --save early --load early >log 2>err &
    pid=$!
    until grep -qs "\"process\":$pid\b" early/starts-without-step.json || ! kill -0 $pid 2>/dev/null; do :; done
    kill -USR1 $pid 2>/dev/null || true
    wait $pid || got=$?
    [ $got = "$code" ] || fail "a signal before the first step: exit $got, wanted $code: $(cat err)"
    [ -d "early/$(head -n1 early/latest)" ] || fail "exit $code, but no step is there: $(ls early)"
done
endless=("${args[@]}" --train-iters 4 --eval-interval 2 --eval-iters 1_000_000 --save endless --load endless --exit-duration-in-mins 0.07)
for code in 75 75 75 4; do expect $code '' lm-train "${endless[@]}"; done
grep -q 'starts-without-step.json: 2 .*iteration 2 ' err || fail "endless: $(cat err)"
expect 75 '' lm-train "${args[@]}" --train-iters 1_000_000 --eval-iters 0 --save crash --load crash --exit-interval 1
[ ! -e crash/starts-without-step.json ] || fail "the count was not ended"
echo "time limits leave time for the save; a signal ends a step; the third start without a step is refused"
