#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A batch that --on-spike or --on-nan refused stays refused when the run is killed before its next save. No fault is
# injected into the resumed run, which logs the same lines as the run that was not killed, and as a run with
# --skip-train-iteration-range.
# labels: e2e
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

args=(--mock-data --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 100
    --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --threads 1 --log-interval 1 --eval-iters 0 --train-iters 100_000)
# lines LOG: prints iteration, loss, gradient norm and the counts of skipped and nan iterations, without times. For a repeated
# iteration, prints the last line only.
lines() {
    sed -nE 's/.*iteration +([0-9]+)\/ *[0-9]+ \|(.*)/\1 \2/p' "$@" | sed -E 's/elapsed[^|]*\|//; s/[a-zA-Z ]*per [a-zA-Z ()]*: [^|]*\|//g; s/TFLOPs[^|]*\|//' |
        awk '{ line[$1] = $0 } END { for (i = 1; i in line; i++) print line[i] }'
}

# All runs start from these first 36 iterations.
run start.log lm-train "${args[@]}" --save start --exit-iteration 36
end=(--exit-iteration 50)
# KIND FAULT FLAG: a fault in iteration 41 that appears once, its policy, and the documented equivalent.
for case in "spike loss:200:41:0:0:once --on-spike=skip 41-41" "window loss:200:41:0:0:once --on-spike=rollback 37-41" \
    "nan gradient:nan:41:0:1:once --on-nan=skip 41-41" "nan-window loss:nan:41:0:0:once --on-nan=rollback 37-41"; do
    read -r kind fault policy range <<<"$case"
    mkdir "$kind"
    cd "$kind"
    both=("${args[@]}" "${policy%=*}" "${policy#*=}")
    for name in never whole killed; do cp -r ../start $name; done
    run never.log lm-train "${args[@]}" --save never --load never "${end[@]}" --skip-train-iteration-range "$range"
    LM_STEP_FAULT=$fault run whole.log lm-train "${both[@]}" --save whole --load whole "${end[@]}" --tensorboard-dir board
    # A rollback begins a second file, with the record that removes the values of the rolled-back iterations.
    n_purges=$(cat board/events* | LC_ALL=C grep -aoP '\x3a\x02\x08\x01' | wc -l)
    [ "$n_purges" = $((1 + $(grep -c rollback <<<"$policy" || true))) ] || fail "$kind: $n_purges purge records in board"
    LM_STEP_FAULT=$fault lm-train "${both[@]}" --save killed --load killed >killed.log 2>err &
    pid=$!
    until grep -qs 'iteration  *45/' killed.log; do kill -0 $pid || fail "$kind: $(cat err)"; sleep 0.02; done
    kill -9 $pid
    wait $pid 2>/dev/null || true
    [ "$(head -n1 killed/latest)" = global_step36 ] || fail "$kind: a save after the fault: $(ls killed)"
    run resumed.log lm-train "${both[@]}" --save killed --load killed "${end[@]}"
    grep -q "killed/refused-iterations.json: .*$range " resumed.log.err ||
        fail "$kind: no note: $(cat resumed.log.err)"
    [ "$(lines ../start.log whole.log | wc -l)" = 50 ] || fail "$kind: $(cat whole.log)"
    diff <(lines ../start.log whole.log) <(lines ../start.log resumed.log) || fail "$kind: the resumed run has other lines"
    diff <(lines ../start.log never.log | sed -E 's/number of nan[^|]*//') \
        <(lines ../start.log resumed.log | sed -E 's/number of nan[^|]*//') || fail "$kind: other lines than with $range"
    for other in never whole; do
        lm-ckpt diff $other/global_step50 killed/global_step50 >out || fail "$kind: weights differ from $other: $(cat out)"
    done
    # A run with another --save resumes from the step before the fault.
    [ "$kind" = nan ] || { cd .. && continue; }
    cp -r ../start s0
    cp killed/refused-iterations.json s0
    for load in s0 s0/global_step36; do
        rm -rf forked
        run forked.log lm-train "${both[@]}" --save forked --load $load "${end[@]}"
        grep -q "s0/refused-iterations.json: .*$range " forked.log.err ||
            fail "--load $load: no note: $(cat forked.log.err)"
        diff <(lines ../start.log whole.log) <(lines ../start.log forked.log) || fail "--load $load: other lines"
        cmp s0/refused-iterations.json forked/refused-iterations.json || fail "--load $load: not in --save"
    done
    cd ..
done
echo "refused batches stay refused after kill -9"
