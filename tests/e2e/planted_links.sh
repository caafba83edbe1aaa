#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Links planted in the directories that each writing command is given, under the names that the command itself makes: none of
# them leads to a change of the files outside, and no output is a link. Another user of a shared directory could plant them.
# timeout: 600
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"

export LM_HOST=here XDG_CACHE_HOME=$work/cache
args=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 257
    --micro-batch-size 2 --global-batch-size 2 --lr 1e-3 --threads 1 --eval-iters 0 --log-interval 6)
lm-train "${args[@]}" --train-iters 6 --save c --save-interval 3 >/dev/null 2>&1
make_corpus corpus.jsonl 20

mkdir -p home/src
echo thesis >home/thesis.tex
echo code >home/src/a.c
echo '{"precious": true}' >home/precious
state() { (cd home && find . -printf '%p %y %s %m %T@ %l\n' | sort && find . -type f -exec sha256sum {} + | sort); }
before=$(state)
home=$work/home

n=0
# attack COMMAND...: any documented exit code, within a minute; nothing outside has changed, and no link was published.
# LINKS lists the outputs.
attack() {
    local code=0
    timeout -k 5 60 "$@" >out 2>err </dev/null || code=$?
    [ $code -le 3 ] || fail "$*: exit $code: $(cat err)"
    [ "$(state)" = "$before" ] || fail "$*: files outside have changed: $(diff <(echo "$before") <(state))"
    n=$((n + 1))
}
# refused PATTERN COMMAND...: the same, and the error names the link.
refused() {
    local pattern=$1
    shift
    attack "$@"
    grep -Eq -- "$pattern" err || fail "$*: no '$pattern' in: $(cat err)"
}
# no_link PATH...: these outputs are not links.
no_link() {
    local path
    for path in "$@"; do [ ! -L "$path" ] || fail "$path was published as a link"; done
}
# with_pid NAME TARGET COMMAND...: first links NAME.tmp.here.PID, where PID is the number of the command's process.
# shellcheck disable=SC2016
with_pid() {
    local name=$1 target=$2
    shift 2
    attack bash -c 'ln -s "$1" "$0.tmp.here.$$"; shift; exec "$@"' "$name" "$target" "$@"
}

# ---- lm-ckpt copy
fresh() {
    rm -rf d
    mkdir d
}
fresh
ln -sfn "$home" d/global_step6.tmp.copy
refused 'd/global_step6.tmp.copy: .*symbolic link' lm-ckpt copy c/global_step6 d
no_link d/global_step6
for name in lock manifest.json index-00000.json weights-00000.safetensors optim-00000.safetensors; do
    for kind in symbolic hard; do
        fresh
        mkdir d/global_step6.tmp.copy
        [ $kind = hard ] && ln home/precious "d/global_step6.tmp.copy/$name"
        [ $kind = hard ] || ln -sfn "$home/precious" "d/global_step6.tmp.copy/$name"
        # A hard link changes the number of links only, which the state does not contain.
        attack lm-ckpt copy c/global_step6 d
        no_link "d/global_step6/$name"
        [ "$name" = lock ] || diff -r c/global_step6 d/global_step6 || fail "$name: another copy"
    done
done
fresh
mkdir -p d/global_step6.tmp.copy
ln -sfn "$home" d/global_step6.tmp.copy/sub
attack lm-ckpt copy c/global_step6 d
fresh
ln -sfn "$home/precious" d/latest
attack lm-ckpt copy c d
fresh
ln -sfn "$home" d/global_step6
attack lm-ckpt copy c d
attack lm-ckpt copy c d --force
no_link d/global_step6

# ---- lm-ckpt sync to a directory
ln -s /dev/null empty.jsonl
for link in .sync-lock:precious .sync-lock:absent logs: global_step6.tmp.copy: latest:precious global_step6: \
    abandoned-g1: global_step3.tmp.removed:; do
    fresh
    ln -sfn "$home/${link#*:}" "d/${link%%:*}"
    attack lm-ckpt sync c d --logs corpus.jsonl --keep-last 1
    [ ! -e home/absent ] || fail "$link: a file was created outside"
done
# A rollback at the source renames a step of the destination into abandoned-gN.
cp -r c r
fresh
lm-ckpt sync r d >/dev/null 2>&1
lm-ckpt latest r 3 >/dev/null 2>&1
ln -sfn "$home" d/abandoned-g1
refused 'd/abandoned-g1: .*symbolic link' lm-ckpt sync r d
[ -d d/global_step6 ] || fail "a step went to the link"

# ---- lm-ckpt sync to a host, over a local shell
if command -v rsync >/dev/null; then
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >near
    chmod +x near
    export RSYNC_RSH=$work/near
    for link in global_step6.tmp.sync: logs: latest:precious global_step6: abandoned-g1: manifests:; do
        fresh
        rm -rf cache
        ln -sfn "$home/${link#*:}" "d/${link%%:*}"
        attack lm-ckpt sync c "host:$work/d" --logs corpus.jsonl --retries 0
    done
    fresh
    rm -rf cache
    lm-ckpt sync c "host:$work/d" >/dev/null 2>&1
    ln -sfn "$home" d/abandoned-g1
    refused 'abandoned-g1: .*symbolic link' lm-ckpt sync r "host:$work/d" --retries 0
fi

# ---- lm-ckpt prune and latest
damaged() {
    rm -rf r
    cp -r c r
}
for name in global_step3.tmp.removed global_step9.tmp.removed global_step9.tmp.g1 global_step9.tmp.copy global_step6.tmp.copy \
    abandoned-g9 abandoned-g9.tmp.removed latest.tmp.here.1; do
    for rules in "--keep-last 1" "--weights-only-older-than 1" "--leftovers 0s" "--abandoned"; do
        damaged
        ln -sfn "$home" "r/$name"
        # shellcheck disable=SC2086
        attack lm-ckpt prune r $rules
    done
    damaged
    mkdir "r/$name"
    ln -sfn "$home" "r/$name/link"
    attack lm-ckpt prune r --leftovers 0s --abandoned
    [ -d r/global_step6 ] || fail "prune: the newest step is gone"
done
for link in abandoned-g2: fence.json:precious generation-2:absent latest:precious x.jsonl:precious logs:; do
    damaged
    ln -sfn "$home/${link#*:}" "r/${link%%:*}"
    attack lm-ckpt latest r 3
    [ ! -e home/absent ] || fail "$link: a file was created outside"
done

# ---- commands with one output, under the name of its temporary
for target in "$home" "$home/precious" "$home/absent"; do
    with_pid u.safetensors "$target" lm-ckpt unshard c u.safetensors
    with_pid s "$target" lm-ckpt reshard c s --tensor-model-parallel-size 2
    with_pid m "$target" lm-ckpt merge m c/global_step3 c/global_step6
    with_pid f "$target" lm-ckpt repair c f
    with_pid hf "$target" lm-convert c hf --to hf-gpt2
    with_pid ds "$target" lm-convert c ds --to megatron-deepspeed
    with_pid scores "$target" lm-ckpt score c corpus.jsonl --output scores --tokenizer-type ByteTokenizer
    with_pid tok "$target" lm-preprocess train-tokenizer --input corpus.jsonl --vocab-size 300 --output tok
    [ ! -e home/absent ] || fail "a file was created outside"
    no_link u.safetensors s m f hf ds scores tok
    rm -rf u.safetensors s m f hf ds scores tok
    # The output itself is a link.
    for out in u.safetensors s m f hf ds tok; do ln -sfn "$target" $out; done
    attack lm-ckpt unshard c u.safetensors
    attack lm-ckpt unshard c u.safetensors --force
    attack lm-ckpt reshard c s --tensor-model-parallel-size 2
    attack lm-ckpt merge m c/global_step3 c/global_step6
    attack lm-ckpt repair c f
    attack lm-convert c hf --to hf-gpt2
    attack lm-convert c hf --to hf-gpt2 --force
    attack lm-convert c ds --to megatron-deepspeed --force
    attack lm-preprocess train-tokenizer --input corpus.jsonl --vocab-size 300 --output tok --force
    rm -rf u.safetensors s m f hf ds tok
    [ ! -e home/absent ] || fail "a file was created outside"
done

# ---- lm-preprocess
preprocess() { attack lm-preprocess --input corpus.jsonl --output-prefix o --tokenizer-type ByteTokenizer --quiet "$@"; }
for flags in "" --force --resume; do
    # shellcheck disable=SC2086
    for link in .unfinished: .unfinished:absent _text_document.bin:precious _text_document.idx:precious; do
        rm -rf o.* o_*
        ln -sfn "$home/${link#*:}" "o${link%%:*}"
        preprocess $flags
        [ ! -e home/absent ] || fail "$link: a file was created outside"
    done
    for name in lock run.json part-0000.journal part-0000.0.bin part-0000.0.lengths part-0000.0.documents key-0.bin key-0.idx; do
        rm -rf o.* o_*
        mkdir o.unfinished
        ln -sfn "$home/precious" "o.unfinished/$name"
        [ "$name" = lock ] || : >o.unfinished/lock
        # shellcheck disable=SC2086
        preprocess $flags
    done
done

# The work of a run that was killed, with each of its files replaced by a link.
begin() {
    rm -rf o.* o_*
    { LM_IO_FAULT=kill:30 lm-preprocess --input corpus.jsonl --output-prefix o --tokenizer-type ByteTokenizer --quiet || true; } \
        >/dev/null 2>&1
    [ -e o.unfinished/run.json ] || fail "the killed run left $(ls -A o.unfinished)"
}
begin
mapfile -t names < <(find o.unfinished -type f -printf '%f\n')
for name in "${names[@]}"; do
    for flags in --resume --force; do
        begin
        ln -sfn "$home/precious" "o.unfinished/$name"
        preprocess $flags
    done
done

# ---- lm-train
train() { attack lm-train "${args[@]}" --train-iters 6 --save-interval 3 --save t --load t "$@"; }
for link in generation-1:absent generation-1:precious fence.json:precious fence.json:absent latest:precious latest:absent \
    global_step3: global_step3.tmp.g1: global_step3.tmp.g1:absent abandoned-g1: autotune: flight-recorder: status.json:precious; do
    rm -rf t
    mkdir t
    ln -sfn "$home/${link#*:}" "t/${link%%:*}"
    train --status-file t/status.json --save-retain keep-last=1
    [ ! -e home/absent ] || fail "$link: a file was created outside"
    no_link t/global_step6
done
for link in here: here:absent; do
    rm -rf t l
    mkdir l
    ln -sfn "$home/${link#*:}" "l/${link%%:*}"
    train --local-save l --local-save-interval 2
    [ ! -e home/absent ] || fail "local: a file was created outside"
done
for name in global_step2.tmp.g1 global_step2.tmp.g9 global_step2 durable-directory; do
    rm -rf t l
    mkdir -p l/here
    ln -sfn "$home" "l/here/$name"
    train --local-save l --local-save-interval 2
done
# Another user owns the local directory of this host, or can write there, and could plant steps: they are neither loaded nor kept.
rm -rf t l
train --local-save l --local-save-interval 2
for other in 'chmod o+w' 'chown nobody'; do
    [ "$other" != 'chown nobody' ] || [ "$(id -u)" = 0 ] || continue
    cp -rp l m
    $other m/here
    cp -rp t u
    refused 'm/here: --local-save: other users' lm-train "${args[@]}" --train-iters 8 --save u --load u --local-save m \
        --local-save-interval 2
    diff -r l m || fail "$other: the local directory has changed"
    rm -rf m u
done

# A log is also the user's own link, but not one that another user has planted.
for flag in --log-file --log-json; do
    rm -f own.log log
    ln -s own.log log
    expect 0 '' lm-train "${args[@]}" --train-iters 1 $flag log
    [ -s own.log ] || fail "$flag: no line behind a link"
    [ "$(id -u)" = 0 ] || continue
    for target in precious absent; do
        ln -sfn "$home/$target" log
        chown -h nobody log
        refused 'log: .*symbolic link' lm-train "${args[@]}" --train-iters 1 $flag log
        [ ! -e home/absent ] || fail "$flag: a file was created outside"
    done
done

# So is a log of lm-ckpt sync and latest. Links below a directory are no logs of it.
echo '{"iteration": 9}' >own.log
ln -sfn own.log mine.log
fresh
expect 0 '' lm-ckpt sync c d --logs mine.log
cmp own.log d/logs/mine.log || fail "sync --logs: not the log behind the link"
rm -rf r
cp -r c r
ln -s ../own.log r/x.log
expect 0 '' lm-ckpt latest r 3
[ -L r/x.log ] || fail "latest: a link below the directory was replaced"
[ -s own.log ] || fail "latest: the target of a link below the directory was cut"
expect 0 '' lm-ckpt latest r 3 --logs mine.log
[ -L mine.log ] || fail "latest: the link was replaced"
[ ! -s own.log ] || fail "latest: the target of the link was not cut"
if [ "$(id -u)" = 0 ]; then
    fresh
    ln -sfn "$home/precious" theirs.log
    chown -h nobody theirs.log
    echo line >own.log
    refused 'theirs.log: .*symbolic link' lm-ckpt sync c d --logs '*.log'
    [ "$(cd d/logs && echo *)" = 'mine.log own.log' ] || fail "sync --logs: $(ls d/logs)"
fi

# ---- races: as soon as a command has made a directory, a link to another directory takes its name
# race NAME COMMAND...: NAME may be a pattern.
race() {
    local pattern=$1 thief
    shift
    rm -rf away
    # shellcheck disable=SC2086
    (
        until name=$(compgen -G "$pattern") && mv "$name" away 2>/dev/null; do sleep 0.01; done
        ln -s "$home" "$name"
    ) &
    thief=$!
    LM_IO_FAULT=slow:50 attack "$@"
    [ -d away ] || fail "$*: nobody has moved $pattern: $(cat err)"
    wait $thief
}
fresh
race d/global_step6.tmp.copy lm-ckpt copy c/global_step6 d
no_link d/global_step6
fresh
race d/logs lm-ckpt sync c d --logs corpus.jsonl
damaged
race r/global_step3.tmp.copy lm-ckpt prune r --weights-only-older-than 1
no_link r/global_step3
damaged
race r/abandoned-g2 lm-ckpt latest r 3
race 's.tmp.*' lm-ckpt reshard c s --tensor-model-parallel-size 2
race 'hf.tmp.*' lm-convert c hf --to hf-gpt2
no_link s hf
rm -rf s hf o.* o_*
race o.unfinished lm-preprocess --input corpus.jsonl --output-prefix o --tokenizer-type ByteTokenizer --quiet
rm -rf t l
race t/global_step3.tmp.g1 lm-train "${args[@]}" --train-iters 6 --save-interval 3 --save t --load t
no_link t/global_step3
rm -rf t
mkdir l
race l/here lm-train "${args[@]}" --train-iters 6 --save-interval 3 --save t --load t --local-save l --local-save-interval 2

# ---- the checks of share/cron: their probes, logs and states; slurm_faults.sh has the files of train.sbatch
kit=$(realpath "$here/../../share/cron")
mkdir -p tools runs
printf '#!/bin/sh\necho "12|RUNNING|None|5:00:00|1:00"\n' >tools/squeue
# The probe of the watchdog has a random name: this mktemp plants a link there after the name is known.
# shellcheck disable=SC2016
printf '#!/bin/sh\nname=$(/usr/bin/mktemp "$@")\n[ -z "$TARGET" ] || ln -sfn "$TARGET" "$name"\necho "$name"\n' >tools/mktemp
chmod +x tools/*
cat >site.conf <<END
PATH=$work/tools:$PATH
JOB_NAME=x
RUN_DIRECTORY=$work/runs
STATUS_FILE=$work/runs/status.json
STATE_DIRECTORY=$work/state
MAIN_LOG=$work/runs/main_log.txt
BACKUP=$work/d
END
for target in "$home" "$home/precious" "$home/absent"; do
    for link in status.json main_log.txt latest log; do
        rm -rf runs state
        mkdir runs
        echo '{"state": "running", "time": 1, "due": 2, "iteration": 3, "failed_saves": 1}' >runs/status.json
        touch runs/status.json
        ln -sfn "$target" runs/$link
        for check in watchdog pulse fs-watch backup; do
            TARGET=$target attack bash "$kit/$check" site.conf
            [ ! -e home/absent ] || fail "$check, $link: a file was created outside"
        done
    done
done

# ---- A link that the user names as the directory itself is followed.
mkdir real
ln -s real given
expect 0 '' lm-train "${args[@]}" --train-iters 3 --save-interval 3 --save given --load given
[ -f real/global_step3/manifest.json ] || fail "--save LINK: $(ls real)"
expect 0 '' lm-ckpt sync given copies --quiet
rm -rf real
mkdir real
expect 0 '' lm-ckpt sync c given --quiet
expect 0 '' lm-ckpt copy c given
expect 0 '' lm-ckpt prune given --keep-last 1
[ -f real/global_step6/manifest.json ] || fail "sync to a link: $(ls real)"
[ "$(state)" = "$before" ] || fail "files outside have changed"
echo "$n attacks, nothing outside has changed"
