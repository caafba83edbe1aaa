#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# FIFOs, devices and huge files in the places of regular files: refused by name and kind, never waited for. A FIFO as the input
# of lm-preprocess is read, and SIGTERM ends the wait for its writer. Numbers that no run writes are damage.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

args=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 257
    --micro-batch-size 2 --global-batch-size 2 --lr 1e-3 --threads 1 --eval-iters 0 --log-interval 6 --train-iters 6)
lm-train "${args[@]}" --save c --save-interval 3 >/dev/null 2>&1
lm-convert c hf --to hf-gpt2 --quiet 2>/dev/null
make_corpus corpus.jsonl 20

# ends PATTERN COMMAND...: exit code 2 or 3 at once, or 1 for the answer of verify, with a line that matches.
ends() {
    local pattern=$1 code=0
    shift
    timeout -k 5 60 "$@" >out 2>err </dev/null || code=$?
    case $code:$2 in 2:* | 3:* | 1:verify) ;; *) fail "$*: exit $code: $(cat err)" ;; esac
    grep -Eq -- "$pattern" err out || fail "$*: no '$pattern' in: $(cat err)"
}
# place KIND PATH
place() {
    rm -rf "$2"
    case $1 in
        FIFO) mkfifo "$2" ;;
        'character device') ln -s /dev/zero "$2" ;;
        'too large') truncate -s 5T "$2" ;;
    esac
}
for kind in FIFO 'character device' 'too large'; do
    rm -rf d
    cp -r c d
    place "$kind" d/latest
    ends "d/latest: .*$kind" lm-ckpt latest d
    ends "d/latest: .*$kind" lm-ckpt ls d
    ends "d/latest: .*$kind" lm-train "${args[@]}" --load d --save d
    ends "d/latest: .*$kind" lm-ckpt sync d backup
    rm -rf d
    cp -r c d
    place "$kind" d/global_step6/manifest.json
    ends "d/global_step6/manifest.json: .*$kind" lm-ckpt show d/global_step6
    ends "d/global_step6/manifest.json: .*$kind" lm-ckpt verify d/global_step6
    ends "d/global_step6/manifest.json: .*$kind" lm-ckpt copy d/global_step6 e
    expect 0 '' timeout 60 lm-ckpt ls d
    # A manifest that is too large is damage, so the run takes the previous step.
    if [ "$kind" = 'too large' ]; then
        expect 0 "$resumed 3" lm-train "${args[@]}" --load d --save d
    else
        ends "d/global_step6/manifest.json: .*$kind" lm-train "${args[@]}" --load d --save d
    fi
    rm -rf d
    cp -r c d
    place "$kind" d/global_step6/index-00000.json
    ends "d/global_step6/index-00000.json: .*$kind" lm-ckpt show d/global_step6
    rm -rf m
    cp -r hf m
    place "$kind" m/config.json
    ends "m/config.json: .*$kind" lm-convert m back
    [ "$kind" = 'too large' ] && continue
    rm -rf m
    cp -r hf m
    place "$kind" m/model.safetensors
    ends "m/model.safetensors: .*$kind" lm-convert m back
    place "$kind" status
    expect 2 "status: .*$kind" timeout 60 lm-train "${args[@]}" --status-file status
    ! grep warning err || fail "--status-file is refused, and a warning says otherwise"
done

# A log is a file, a device or a descriptor: the reader of a FIFO could stop the training.
mkfifo stalled
sleep 1000 <>stalled &
for flag in --log-file --log-json; do
    expect 2 'stalled: .*FIFO' timeout 60 lm-train "${args[@]}" $flag stalled
    expect 2 'stalled: .*FIFO' timeout 60 lm-train "${args[@]}" $flag stalled --dry-run
    expect 0 '' lm-train "${args[@]}" $flag /dev/null
    lm-train "${args[@]}" $flag /dev/stderr 2>&1 >/dev/null | cat >err
    grep -q 'iteration' err || fail "$flag /dev/stderr: $(cat err)"
done

# A FIFO as the input is legitimate: with a writer it is read.
mkfifo in
cat corpus.jsonl >in &
expect 0 '' timeout 60 lm-preprocess --input in --output-prefix piped --tokenizer-type ByteTokenizer --quiet
expect 0 '' lm-preprocess --input corpus.jsonl --output-prefix plain --tokenizer-type ByteTokenizer --quiet
cmp piped_text_document.bin plain_text_document.bin || fail "a FIFO: other bytes"
prints '^[0-9]+$' bash -c "lm-preprocess --input <(cat corpus.jsonl) --output-prefix s --tokenizer-type ByteTokenizer --json | jq .documents"
# Other inputs are read from a FIFO, too, but a FIFO without a writer is not waited for. These commands wait at the same time.
mkfifo silent settings
waiting=()
for command in "lm-train ${args[*]} --deepspeed_config" "lm-estimate eta" "lm-ckpt score ../c" "lm-ckpt generate ../c --prompts"; do
    mkdir "wait-${#waiting[@]}"
    # shellcheck disable=SC2086
    (cd "wait-${#waiting[@]}" && expect 3 ': \.\./silent: .*FIFO' timeout 60 $command ../silent) &
    waiting+=($!)
done
for pid in "${waiting[@]}"; do wait "$pid" || exit 1; done
for kind in 'character device' 'too large'; do
    place "$kind" endless
    ends "endless: .*$kind" lm-train "${args[@]}" --deepspeed_config endless
    ends "endless: .*$kind" lm-train "${args[@]}" --data-args-path endless
    [ "$kind" = 'too large' ] && continue
    ends "endless: .*$kind" lm-preprocess --input endless --output-prefix z --tokenizer-type ByteTokenizer
    ends "endless: .*$kind" lm-estimate eta endless
    ends "endless: .*$kind" lm-ckpt generate c --prompts endless
done
ends 'too large' bash -c 'lm-train "$@" --deepspeed_config <(exec cat /dev/zero)' lm-train "${args[@]}"
cat >settings <<<'{}' &
expect 0 '' timeout 60 lm-train "${args[@]}" --deepspeed_config settings --dry-run
# With a writer, they read what they read from a file: also when the writer comes late or has left.
lm-train "${args[@]}" --log-interval 1 --log-file log >/dev/null 2>&1
echo '{"context": [1, 2], "continuation": [3]}' >requests
for command in "lm-estimate eta --json:log" "lm-ckpt score c:requests"; do
    input=${command#*:} command=${command%:*}
    # shellcheck disable=SC2086
    expect 0 '' $command $input
    jq -c 'del(.age)' out >wanted
    for way in "cat $input >settings & $command settings" "(sleep 1; exec cat $input >settings) & $command settings" \
        "$command <(cat $input)" "cat $input | $command /dev/stdin" "cat $input | $command -" \
        "cat $input >settings & (sleep 0.5; exec $command /dev/stdin) <settings"; do
        expect 0 '' timeout 60 bash -c "$way"
        jq -c 'del(.age)' out | diff wanted - || fail "$way: other output"
    done
done

# stop SIGNAL PID CODES WHAT: sends the signal to a process that waits for the writer of a FIFO. It ends with one of the codes.
stop() {
    local code=0 i
    kill "-$1" "$2"
    for ((i = 0; i < 200; i++)); do
        kill -0 "$2" 2>/dev/null || break
        sleep 0.05
    done
    ! kill -KILL "$2" 2>/dev/null || fail "$4: SIG$1 did not end it"
    wait "$2" || code=$?
    [[ " $3 " == *" $code "* ]] || fail "$4: SIG$1: exit $code: $(cat err)"
}
# lm-train that waits for settings: without a writer, and for a writer that sends nothing.
for way in "TERM silent --deepspeed_config" "TERM stalled --data-args-path" "INT stalled --deepspeed_config"; do
    read -r signal fifo flag <<<"$way"
    env --default-signal=INT lm-train "${args[@]}" --status-file st.json "$flag" "$fifo" 2>err >/dev/null &
    pid=$!
    until [ -n "$(find /proc/$pid/fd -lname "*/$fifo" 2>/dev/null)" ]; do
        kill -0 $pid 2>/dev/null || fail "$way: $(cat err)"
        sleep 0.05
    done
    stop "$signal" $pid 75 "$way"
    [ "$(jq -r '.state, .exit_code' st.json | xargs)" = "stopped 75" ] || fail "$way: $(cat st.json)"
done
# Without a writer, the first SIGTERM ends lm-preprocess.
lm-preprocess --input in --output-prefix o --tokenizer-type ByteTokenizer --quiet 2>err &
pid=$!
until [ -e o.unfinished ]; do sleep 0.05; done
sleep 0.3
stop TERM $pid "143 75 3" lm-preprocess
[ ! -e o.unfinished ] || fail "left behind: o.unfinished"

# rsync copies neither links nor FIFOs of the destination into the cache of its manifests.
if command -v rsync >/dev/null; then
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >near
    chmod +x near
    export RSYNC_RSH=$work/near XDG_CACHE_HOME=$work/cache
    mkdir remote
    mkfifo remote/latest
    expect 0 '' timeout 60 lm-ckpt sync c "host:$work/remote"
    [ -f remote/latest ] || fail "latest was not replaced"
    rm -rf remote cache
    mkdir remote
    ln -s /dev/zero remote/latest
    expect 0 '' timeout 60 lm-ckpt sync c "host:$work/remote"
fi

# Generations and claims.
for claim in 'generation-9223372036854775807:' 'generation-3:{"generation":3,"host":5}' \
    'generation-3:{"generation":3,"process":"x"}' 'fence.json:{"generation":9223372036854775807}'; do
    rm -rf d
    cp -r c d
    printf %s "${claim#*:}" >"d/${claim%%:*}"
    find d ! -name starts-without-step.json | sort >names
    expect 3 "d/${claim%%:*}: " timeout 20 lm-ckpt latest d 3
    expect 3 "d/${claim%%:*}: " timeout 20 lm-train "${args[@]}" --train-iters 9 --override-opt_param-scheduler --load d --save d
    find d ! -name starts-without-step.json | sort | diff names - >changes || fail "$claim: the directory has changed: $(cat changes)"
done
echo "special files: all as promised"
