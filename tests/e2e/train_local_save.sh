#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two tiers of saves: 4 ranks on 4 hosts (LM_HOST) save to --local-save every 2 iterations and to --save every 10; kill -9
# of one rank at its k-th file operation, also in the middle of a local save. After the loss of a host a restart, here on
# three hosts, loses at most 2 iterations, and on four hosts it computes the bits of an undisturbed run. After the loss of
# two partners it resumes from the durable step. A rollback in the run begins a branch. A damaged file is read from the partner's
# copy. Abandoned steps are never loaded.
# $2 lists the operations at which a rank is killed. Without $3, tests only the losses of hosts and the rollback in the run.
# labels: e2e;mpi
# timeout: 300
here=$(dirname "$(realpath "$0")")
read -ra kills <<<"${2:-290}"
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

# shellcheck source=tests/e2e/tiers.bash
. "$here/tiers.bash"

again_from_kill() {
    rm -rf run local
    cp -a killed run
    cp -a killed_local local
}

train "a b c d" --save whole >out 2>err || fail "$(cat err)"
for k in "${kills[@]}"; do
    rm -rf run local killed killed_local
    fault=kill:$k tiers "a b c d" && fail "operation $k: no kill"
    reached=$(grep -o '^ iteration *[0-9]*' out | tail -n1 | tr -dc 0-9)
    durable=$(lm-ckpt latest run 2>/dev/null | grep -o '[0-9]*$') || durable=0
    cp -a run killed
    cp -a local killed_local
    echo "killed at iteration $reached, durable step $durable"

    # One host is lost: three hosts, another layout.
    rm -rf local/c
    tiers "a b d" || fail "operation $k: $(cat err)"
    from=$(grep -o "$resumed [0-9]*" err | tr -dc 0-9)
    [ "$from" -ge $((reached - 2)) ] || fail "operation $k: from $from, but $reached iterations were done"
    lm-ckpt verify run >verified || fail "operation $k: lm-ckpt verify"

    # A new host replaces the lost one: the run ends with the bits of the undisturbed run.
    again_from_kill
    rm -rf local/a
    tiers "e b c d" || fail "operation $k: $(cat err)"
    resumes_from "$from"
    ends_with_same_bits "operation $k"
done
if [ "$durable" != 10 ] || [ "$from" -le 10 ]; then fail "the last kill came too early: choose another operation"; fi

# A rollback in the run loads the newest step, here a local one, and begins a branch there.
rm -rf run local
LM_STEP_FAULT=gradient:nan:14:3:1 tiers "a b c d" --on-nan rollback || fail "rollback: $(cat err)"
grep -q 'note: run/global_step12: .*local' err || fail "rollback: $(cat err)"
resumes_from 12
grep -q 'skipped iterations 13 to 14, .*rollback' err || fail "rollback: $(cat err)"
tail -n1 run/latest | jq -e '[.[] | .start.iteration] == [null, 12]' >/dev/null || fail "rollback: no branch: $(cat run/latest)"
train "a b c d" --save never --skip-train-iteration-range 13-14 >never.out 2>never.err || fail "$(cat never.err)"
lm-ckpt diff never/global_step20 run/global_step20 >differences || fail "rollback: other bits"

# Two partners are lost: the run resumes from the durable step.
again_from_kill
rm -rf local/c local/d
tiers "a b c d" || fail "$(cat err)"
resumes_from 10
ends_with_same_bits "two partners lost"
if [ -z "${3:-}" ]; then
    echo "both tiers"
    exit
fi

# A damaged file: the partner has a copy.
again_from_kill
flip "local/b/global_step$from/optim-00001.safetensors"
flip "local/c/global_step$from/weights-00002.safetensors" 3000
tiers "a b c d" || fail "$(cat err)"
grep -q "warning: .*local/[bc]/global_step$from/" err || fail "no word of the damage: $(cat err)"
resumes_from "$from"
ends_with_same_bits "damaged file"

# Both copies are damaged: the run resumes from an older local step.
again_from_kill
flip "local/a/global_step$from/optim-00001.safetensors"
flip "local/b/global_step$from/optim-00001.safetensors"
tiers "a b c d" || fail "$(cat err)"
grep -q "warning: .*local/[ab]/global_step$from/" err || fail "no word of the damage: $(cat err)"
resumes_from $((from - 2))
ends_with_same_bits "both copies damaged"

# The newest durable step is damaged: the run resumes from a local step that is newer than the previous durable step.
rm -rf run local
tiers "a b c d" --log-json log.json || fail "$(cat err)"
[ "$(grep -c '"kind":"local_save".*"hosts":4,' log.json)" = 9 ] || fail "--log-json: $(cat log.json)"
rm -rf run local
tiers "a b c d" --exit-interval 14 || [ $? = 75 ] || fail "$(cat err)"
flip run/global_step14/optim-00001.safetensors
tiers "a b c d" || fail "$(cat err)"
resumes_from 12
rm -rf run/global_step14 # the damaged step stays next to the new ones
ends_with_same_bits "damaged durable step"

# A manifest that cannot be read, on one host: the step comes from the partners, and is not removed.
again_from_kill
echo "{" >"local/a/global_step$from/local-manifest.json"
tiers "a b c d" --exit-interval 1 || [ $? = 75 ] || fail "$(cat err)"
resumes_from "$from"
grep -q "warning: .*local/a/global_step$from/.*kept" err || fail "no warning: $(cat err)"
[ -d "local/a/global_step$from" ] || fail "a damaged local step was removed"
tiers "a b c d" || fail "$(cat err)"
ends_with_same_bits "unreadable manifest"

# Two ranks on each of two hosts, which copy to each other over TCP. One host is lost.
rm -rf run local
export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo
fault_host=b fault=kill:120 tiers "a a b b" && fail "two ranks on a host: no kill"
reached=$(grep -o '^ iteration *[0-9]*' out | tail -n1 | tr -dc 0-9)
rm -rf local/b
tiers "a a c c" || fail "$(cat err)"
at=$(grep -o "$resumed [0-9]*" err | tr -dc 0-9)
[ "$at" -ge $((reached - 2)) ] || fail "two ranks on a host: from $at, but $reached iterations were done"
ends_with_same_bits "two ranks on a host"
export OMPI_MCA_btl=self,vader

# All local steps are lost: a note states it.
again_from_kill
rm -rf local
tiers "a b c d" --exit-interval 1 || [ $? = 75 ] || fail "$(cat err)"
grep -q 'note: .*local: .*run' err || fail "no word of the lost steps: $(cat err)"

# A rollback abandons the local steps.
again_from_kill
lm-ckpt latest run 10 >/dev/null
tiers "a b c d" || fail "$(cat err)"
resumes_from 10
grep -q "global_step$from: removed" err || fail "abandoned local steps stay: $(cat err)"
ends_with_same_bits "rollback"

# A local save that fails is a warning.
again_from_kill
fault=fail:40 tiers "a b c d" || fail "$(cat err)"
grep -q 'iteration [0-9]*: NOT SAVED: rank 3 on d' err || fail "no warning: $(cat err)"
lm-ckpt diff whole/global_step20 run/global_step20 >differences || fail "other bits after a failed local save"
# The status file counts it until the next local save succeeds.
failed_at=$(sed -n 's/.*iteration \([0-9]*\): NOT SAVED.*/\1/p' err)
again_from_kill
fault=fail:40 tiers "a b c d" --exit-iteration $((failed_at + 1)) --status-file status.json || fail "$(cat err)"
[ "$(jq .failed_local_saves status.json)" = 1 ] || fail "failed local saves: $(cat status.json err)"
again_from_kill
tiers "a b c d" --status-file status.json || fail "$(cat err)"
[ "$(jq .failed_local_saves status.json)" = 0 ] || fail "failed local saves: $(cat status.json)"
expect 2 '--local-save: .*--local-save-interval K' lm-train "${args[@]}" --save other --local-save local
echo "both tiers"
