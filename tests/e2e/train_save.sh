#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Saves in the background have the bits of synchronous saves, with a buffer of any size. When a save fails or is killed at any
# operation, only this save is lost. Also tests a full disk and --save-retain. Tests every $2-th operation on files, by
# default every 11th.
# timeout: 300
here=$(dirname "$(realpath "$0")")
every=${2:-11}
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"

model=(--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --vocab-size 64 --mock-data
    --micro-batch-size 2 --lr 1e-3 --threads 2 --eval-iters 0)
args=("${model[@]}" --train-iters 12 --save-interval 4)
same() { cmp "$1/weights-00000.safetensors" "$2/weights-00000.safetensors" && cmp "$1/optim-00000.safetensors" "$2/optim-00000.safetensors"; }

# The same bits: synchronous, asynchronous, and with a buffer that holds a part of the state.
run off.err lm-train "${args[@]}" --save off --async-save off
! grep -q blocked off.err.err || fail "a synchronous save blocks all of its time"
run on.err lm-train "${args[@]}" --save on --async-save --log-json on.json
grep -Eq 'note: on/global_step4: saved, .* in .*, loop blocked' on.err.err || fail "no time: $(cat on.err.err)"
[ "$(grep -c '"kind":"save"' on.json)" = 3 ] || fail "--log-json: $(cat on.json)"
for size in 1 20KiB 1GiB; do run part.err lm-train "${args[@]}" --save "part$size" --async-save-buffer $size; done
for step in 4 8 12; do
    for other in on part1 part20KiB part1GiB; do same off/global_step$step $other/global_step$step || fail "$other: other bits"; done
done
expect 2 '--async-save-buffer: .*--save' lm-train "${model[@]}" --train-iters 1 --async-save-buffer 1M

# If the k-th operation fails or writes only a part, one save is lost, but not the training and the last save. After a kill, the
# next start ends with the same bits.
for action in fail short kill; do
    for ((k = 1; ; k += every)); do
        rm -rf broken
        code=0
        LM_IO_FAULT=$action:$k lm-train "${args[@]}" --save broken --load broken >out 2>err || code=$?
        if ! grep -q 'NOT SAVED\|not count' err && [ $code = 0 ]; then break; fi
        # A start that cannot claim the directory is an error.
        [ $code = 0 ] || [ $code = 137 ] || [ ! -e broken/global_step4 ] || fail "$action:$k: exit $code: $(cat err)"
        [ $code = 0 ] || run again.err lm-train "${args[@]}" --save broken --load broken
        same off/global_step12 broken/global_step12 || fail "$action:$k: other bits"
        lm-ckpt verify broken --quiet >verified || fail "$action:$k: $(cat verified)"
        nothing_under 'broken/*.tmp'
    done
    [ "$k" -gt 60 ] || fail "$action: the operations ended at $k"
done

# A file system for two checkpoints.
if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=900k tmpfs small 2>/dev/null; then
    # shellcheck disable=SC2016
    at_exit 'umount small; end_jobs; rm -rf "$work"'
    small=(lm-train "${args[@]}" --save small/run --load small/run)
    code=0
    expect 2 ' small/run: --save: .* 3 checkpoints' "${small[@]}" --dry-run
    expect 0 '' "${small[@]}" --dry-run --save-retain keep-last=1
    expect 3 'global_step12: NOT SAVED: .* 1.0 s' "${small[@]}" --save-retry 1s
    [ "$(head -n 1 small/run/latest)" = global_step8 ] || fail "a failed save changed latest"
    lm-ckpt verify small/run --quiet || fail "a failed save damaged an earlier step"
    # Room appears while the last save is repeated.
    (sleep 1 && rm -rf small/run/global_step4) &
    expect 0 'warning: .*global_step12: NOT SAVED' "${small[@]}"
    same off/global_step12 small/run/global_step12 || fail "other bits after a full disk"
    rm -rf small/run
    longer=(lm-train "${model[@]}" --train-iters 20 --save-interval 4 --save small/run)
    expect 3 'global_step12: NOT SAVED.*--save-required' "${longer[@]}" --save-required
    rm -rf small/run
    expect 3 'global_step16: NOT SAVED.*: 2' "${longer[@]}" --save-failures 2
    rm -rf small/run
    expect 0 '--save-retain: small/run/global_step12: ' "${longer[@]}" --save-retain keep-last=1
    [ "$(cd small/run && echo global_step*)" = global_step20 ] || fail "--save-retain: $(ls small/run)"
else
    echo "skipped: no tmpfs can be mounted, so a full disk was not tested"
fi

# The plan states how many checkpoints --save-retain keeps, and the largest space. Without a rule that deletes one, it is the sum.
six=(lm-train "${model[@]}" --train-iters 24 --save-interval 4 --save new --dry-run)
prints '> checkpoints +6 of [0-9.]+ [KM]iB each in new; at most 2 are kept, 3 during a save: [0-9.]+ [KM]iB$' \
    "${six[@]}" --save-retain keep-last=2
prints '> checkpoints +6 of [0-9.]+ [KM]iB each in new, [0-9.]+ [KM]iB in all$' \
    "${six[@]}" --save-retain weights-only-older-than=1

# Retention keeps every step that any of the rules keeps, and deletes nothing when the newest step is damaged.
lm-train "${model[@]}" --train-iters 24 --save-interval 4 --save kept --save-retain keep-last=2,keep-every=8,keep=4 >/dev/null 2>&1
[ "$(cd kept && echo global_step*)" = "global_step16 global_step20 global_step24 global_step4 global_step8" ] || fail "kept: $(ls kept)"
for rules in keep-last keep-last=0 keep-first=2 keep-last=x; do
    expect 2 '--save-retain: ' lm-train "${args[@]}" --save new --save-retain $rules
done
expect 2 "--save-retain: .*RULE=VALUE, .*'2'" lm-train "${args[@]}" --save new --save-retain 2
echo "saves in the background: the same bits, whatever fails"
