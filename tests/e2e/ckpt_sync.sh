#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-ckpt sync to a path, to a host over rsync (ssh is replaced by a local shell) and to a remote of rclone.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

command -v rsync >/dev/null || {
    echo "skipped: no rsync"
    exit 77
}
args=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 100
    --micro-batch-size 2 --global-batch-size 2 --lr 1e-3 --threads 1 --eval-iters 0 --log-interval 4)
lm-train "${args[@]}" --train-iters 8 --save c --save-interval 2 --log-json c.jsonl >/dev/null 2>&1

# The host "near" is this machine: a command runs in a local shell.
mkdir bin
cat >bin/fake-ssh <<'END'
#!/bin/sh
shift
[ ! -e "$LM_TEST_DOWN" ] || { rm "$LM_TEST_DOWN"; exit 255; }
exec sh -c "$*"
END
chmod +x bin/fake-ssh
export RSYNC_RSH=$work/bin/fake-ssh LM_TEST_DOWN=$work/down
cat >rclone.conf <<END
[store]
type = alias
remote = $work/rclone
END
export RCLONE_CONFIG=$work/rclone.conf

numbers() { jq -c "$1" out; }
# expect_line FIELD VALUE: a field of the JSON line.
expect_line() { [ "$(numbers ".$1")" = "$2" ] || fail "$1 is not $2: $(cat out)"; }
# behaves DEST DIRECTORY NAME: checks the contract of sync for one kind of destination, whose files are in DIRECTORY.
behaves() {
    local dest=$1 at=$2
    expect 0 '' lm-ckpt sync c "$dest" --logs 'c*.jsonl' --keep-last 3
    expect_line copied '[4,6,8]'
    expect_line logs 1
    [ "$(wc -l <out)" = 1 ] || fail "not one line: $(cat out)"
    for step in 4 6 8; do diff -r c/global_step$step "$at/global_step$step" || fail "$dest: step $step differs"; done
    [ "$(head -n1 "$at/latest")" = global_step8 ] || fail "$dest: latest is $(cat "$at/latest")"
    cmp c.jsonl "$at/logs/c.jsonl" || fail "$dest: log"
    # A second sync has nothing to do; a byte that changed at the destination is found.
    expect 0 '' lm-ckpt sync c "$dest" --verify --keep-last 3
    expect_line copied '[]'
    expect_line verified '[4,6,8]'
    flip "$at/global_step6/weights-00000.safetensors"
    expect 3 'global_step6: .*c/global_step6' lm-ckpt sync c "$dest" --verify --keep-last 3
    rm -r "$at/global_step6"
    expect 0 '' lm-ckpt sync c "$dest" --keep-last 3
    expect_line copied '[6]'
    # --keep removes steps of the destination, not of the source.
    expect 0 '' lm-ckpt sync c "$dest" --keep 4
    expect_line removed '[6]'
    [ "$(cd "$at" && echo global_step*)" = "global_step4 global_step8" ] || fail "$dest: $(ls "$at")"
    # A step whose manifest is empty is named, and the others are copied.
    cp -r c "empty-$3"
    : >"empty-$3/global_step4/manifest.json"
    expect 3 "empty-$3/global_step4/manifest.json" lm-ckpt sync "empty-$3" "$dest-empty"
    expect_line copied '[2,6,8]'
    # A corrupt step is not copied.
    cp -r c "damaged-$3"
    flip "damaged-$3/global_step6/weights-00000.safetensors"
    expect 3 '^lm-ckpt: .*global_step6: .*not copied' lm-ckpt sync "damaged-$3" "$dest"
    expect_line copied '[2]'
    nothing_under '*.tmp.'
}
# weights_only DEST DIRECTORY NAME: the copies are those of lm-ckpt copy --weights-only, on every kind of destination.
weights_only() {
    expect 0 '' lm-ckpt sync c "$1" --weights-only
    expect_line copied '[2,4,6,8]'
    for step in 2 8; do
        diff -r "weights/global_step$step" "$2/global_step$step" || fail "$1: --weights-only: step $step differs"
        [ -z "$(find "$2/global_step$step" -type l)" ] || fail "$1: --weights-only sent links"
    done
    expect 0 '' lm-ckpt sync c "$1" --weights-only --verify
    expect_line copied '[]'
    expect_line verified '[2,4,6,8]'
    flip "$2/global_step6/weights-00000.safetensors"
    expect 3 'global_step6: .*c/global_step6' lm-ckpt sync c "$1" --weights-only --verify
    # A step whose index is damaged at the source does not end the sync of the others.
    cp -r c "weights-$3"
    echo >>"weights-$3/global_step2/index-00000.json"
    expect 3 'global_step2' lm-ckpt sync "weights-$3" "$1" --weights-only --verify --logs 'c*.jsonl'
    expect_line verified '[4,8]'
    expect_line logs 1
    # A weight that is damaged at the source is named by its file, and the step is not copied.
    rm -r "weights-$3"
    cp -r c "weights-$3"
    rm -r "$2/global_step6"
    flip "weights-$3/global_step6/weights-00000.safetensors"
    expect 3 "weights-$3/global_step6/weights-00000.safetensors" lm-ckpt sync "weights-$3" "$1" --weights-only
    [ ! -e "$2/global_step6" ] || fail "$1: a damaged step was copied"
    nothing_under .sync-outgoing
}
lm-ckpt copy c/global_step2 weights/global_step2 --weights-only --quiet
lm-ckpt copy c/global_step8 weights/global_step8 --weights-only --quiet
weights_only backup/weights backup/weights path
weights_only "near:$work/far-weights" far-weights rsync
if command -v rclone >/dev/null; then weights_only store:weights rclone/weights rclone; fi

behaves backup/run backup/run path
behaves "near:$work/far" far rsync
if command -v rclone >/dev/null; then behaves store:run rclone/run rclone; fi

# The next sync removes what a killed one has left, but no file of the user.
dead=$(sh -c 'echo $$')
mkdir -p backup/run/logs
touch backup/run/{latest,logs/c.jsonl}".tmp.here.$dead" backup/run/latest.tmp.notes
LM_HOST=here expect 0 '' lm-ckpt sync c backup/run --logs c.jsonl --keep 4
[ "$(find backup/run -name '*.tmp.*')" = backup/run/latest.tmp.notes ] || fail "left: $(find backup/run -name '*.tmp.*')"
rm backup/run/latest.tmp.notes

# A connection that breaks once is tried again.
touch down
expect 0 'near:.*exit code [0-9]*\): attempt 2 of 4' lm-ckpt sync c "near:$work/far2"
expect_line copied '[2,4,6,8]'
# What the host prints cannot change the terminal.
printf '#!/bin/sh\nprintf "\\033[2Jmotd\\n" >&2\nexec %s/bin/fake-ssh "$@"\n' "$work" >bin/loud-ssh
chmod +x bin/loud-ssh
RSYNC_RSH=$work/bin/loud-ssh expect 0 '\\x1b\[2Jmotd$' lm-ckpt sync c "near:$work/far2"
! grep -q $'\033' err || fail "control characters: $(cat -v err)"

# A branch after a rollback: its steps are copied, and the steps of the old branch with the same numbers are set aside.
lm-ckpt latest c 4 >/dev/null 2>&1
lm-train "${args[@]}" --train-iters 8 --save c --load c --save-interval 2 --override-opt_param-scheduler >/dev/null 2>&1
for dest in backup/run "near:$work/far2"; do
    expect 0 '' lm-ckpt sync c "$dest"
    expect_line failed '[]'
done
expect_line copied '[6,8]'
expect_line set_aside '[6,8]'
diff -r c/global_step8 far2/global_step8 || fail "the new branch did not arrive"

# A step number is set aside a second time under a name with a suffix: the older step is at the destination again.
dests=(backup/run "near:$work/far2") places=(backup/run far2)
if command -v rclone >/dev/null; then dests+=(store:run) places+=(rclone/run); fi
for k in "${!dests[@]}"; do
    lm-ckpt sync c "${dests[k]}" >/dev/null
    at=${places[k]}
    aside=$(echo "$at"/abandoned-g*/global_step8)
    touch -r "$at/global_step8/manifest.json" time
    rm -r "$at/global_step8"
    cp -r "$aside" before
    cp -r before "$at/global_step8"
    # The manifests have the same size. rsync would take those of the same second for equal.
    [[ $at != far2 ]] || touch -r time "$at/global_step8/manifest.json"
    expect 0 '' lm-ckpt sync c "${dests[k]}"
    expect_line failed '[]'
    expect_line set_aside '[8]'
    diff -r c/global_step8 "$at/global_step8" || fail "${dests[k]}: the step was not replaced"
    diff -r before "$aside" || fail "${dests[k]}: the step that was set aside first has changed"
    diff -r before "$aside.2" || fail "${dests[k]}: no suffix: $(ls "$at"/abandoned-g*)"
    rm -r before
done

# --weights-only-older-than removes old optimizer state if DEST is a local directory. While a sync runs, a second sync to the
# same destination does nothing.
expect 0 '' lm-ckpt sync c backup/run --weights-only-older-than 1
expect_line optimizer_state_removed '[2,4,6]'
expect 0 '' lm-ckpt sync c backup/run --weights-only-older-than 1 --verify
expect_line copied '[]'
expect 2 ' near:.*/far2.* DEST' lm-ckpt sync c "near:$work/far2" --weights-only-older-than 1
flock backup/run/.sync-lock sleep 3 &
sleep 0.3
expect 0 ' backup/run: ' lm-ckpt sync c backup/run
expect_line running true
wait

# After a kill, every step at the destination is complete.
for k in 3 9 15; do
    (LM_IO_FAULT=kill:$k lm-ckpt sync c killed >/dev/null 2>&1) || true
    for step in killed/global_step*; do
        [[ $step = *.tmp.* || ! -e $step ]] || lm-ckpt verify "$step" --quiet >/dev/null || fail "$step is not whole"
    done
done
for k in 2 4 8; do (LM_IO_FAULT=kill:$k lm-ckpt sync c killed-weights --weights-only >/dev/null 2>&1) || true; done
expect 0 '' lm-ckpt sync c killed-weights --weights-only
expect 0 '' lm-ckpt verify killed-weights --quiet
nothing_under .sync-outgoing
expect 0 '' lm-ckpt sync c killed
expect 0 '' lm-ckpt verify killed --quiet
expect 2 ' c/global_step8: ' lm-ckpt sync c/global_step8 x
# A destination that cannot be reached has a line, too.
touch down
expect 3 '^lm-ckpt: near:.*exit code 255\): .*lm-ckpt sync' lm-ckpt sync c "near:$work/far3" --retries 0
! grep -q warning err || fail "a warning beside the error: $(cat err)"
[ "$(jq -c '[.copied, (.failed | length)]' out)" = '[[],1]' ] || fail "no line: $(cat out)"
# If the destination has no room for a step, sync copies nothing and does not try again.
if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=200k tmpfs small 2>/dev/null; then
    code=0
    lm-ckpt sync c small >out 2>err || code=$?
    # With room for two steps, a rule that keeps two makes room for the third.
    for target in roomy "near:$work/roomy-host"; do
        room=${target##*[/]}
        mkdir "$room"
        size=$(du -s -k c/global_step8 | cut -f 1)
        mount -t tmpfs -o "size=$((size * 5 / 2))k" tmpfs "$room"
        mkdir steps
        for step in 2 4 6; do
            cp -a "c/global_step$step" steps/
            echo "global_step$step" >steps/latest
            lm-ckpt sync steps "$target" --keep-last 2 >out 2>>err || fail "no room for $step: $(cat err)"
        done
        [ "$(jq -c .removed out)" = '[2]' ] || fail "removed: $(cat out)"
        umount "$room"
        rm -r steps
    done
    while umount small 2>/dev/null; do
        ls small >left
    done
    [ $code = 3 ] || fail "full destination: exit $code: $(cat err)"
    grep -q ' small: global_step[0-9]* needs' err || fail "full destination: $(cat err)"
    ! grep -q attempt err || fail "a full destination is tried again: $(cat err)"
fi
expect 2 '--logs: no\*: ' lm-ckpt sync c x --logs 'no*'
echo "lm-ckpt sync: all as promised"
