#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-ckpt generate writes text from a training checkpoint of any layout. Also tests JSON Lines, sampling, stop texts and bad
# input.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

make_corpus corpus.jsonl 200
lm-preprocess --input corpus.jsonl --output-prefix data --append-eod --tokenizer-type ByteTokenizer -q
lm-train --data-path data_text_document --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 64 \
    --micro-batch-size 8 --global-batch-size 8 --train-iters 60 --lr 1e-2 --lr-warmup-iters 5 --threads 1 --eval-iters 0 \
    --save c --save-interval 60 >/dev/null 2>&1

# The digest in the manifest names the tokenizer. The text is one line; the rate is on stderr.
expect 0 '^lm-ckpt: note: .*: 7 prompt tokens' lm-ckpt generate c --prompt "the cat" --max-new-tokens 40
[ "$(wc -c <out)" = 41 ] || fail "40 bytes and a newline: $(cat out)"
cp out greedy
expect 0 '' lm-ckpt generate c --prompt - --max-new-tokens 40 -q
[ "$(wc -c <out)" = 41 ] || fail "an empty standard input begins a document: $(cat out)"
printf 'the cat' | lm-ckpt generate c/global_step60 --prompt - --max-new-tokens 40 -q >out 2>err
cmp -s out greedy || fail "standard input: $(cat out)"
[ ! -s err ] || fail "-q: $(cat err)"

# The text is the same for any layout and format, for any number of threads, and if layers are read from the files.
lm-ckpt reshard c cut --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 >/dev/null
lm-convert c megatron --to megatron-lm --tensor-model-parallel-size 2 -q 2>/dev/null >&2
for model in c cut "megatron --tokenizer-type ByteTokenizer"; do
    for flags in "--threads 1" "--threads 3" "--memory 1KiB"; do
        # shellcheck disable=SC2086
        expect 0 '' lm-ckpt generate $model --prompt "the cat" --max-new-tokens 40 $flags
        cmp -s out greedy || fail "$model $flags: $(cat out)"
    done
done
grep -q 'note: .* 1.00 KiB .*(--memory): 2 of 2 layers ' err ||
    fail "no note on layers: $(cat err)"

# Sampling: the seed decides, not the threads.
sample() { lm-ckpt generate c --prompt "the cat" --max-new-tokens 60 -q --temperature 1.5 "$@"; }
sample --threads 1 >one
sample --threads 3 >three
cmp -s one three || fail "threads change a sample"
sample --seed 2 >two
! cmp -s one two || fail "another seed gives the same sample"
expect 0 '' lm-ckpt generate c --prompt "the cat" --max-new-tokens 40 -q --top-k 1
cmp -s out greedy || fail "top-k 1 is greedy: $(cat out)"

# A stop text is not printed, even if it has several tokens.
stop=$(head -c 12 greedy | tail -c 3)
expect 0 '' lm-ckpt generate c --prompt "the cat" --max-new-tokens 40 -q --stop "$stop" --stop never
before=$(cat greedy)
[ "$(cat out)" = "${before%%"$stop"*}" ] || fail "stop '$stop': $(cat out)"

# JSON Lines: prompts as text or as ids, each with its own limits.
printf '%s\n' '{"prompt": "the cat", "max_new_tokens": 5}' '' '{"prompt": [116, 104, 101, 32, 99, 97, 116]}' \
    "{\"prompt\": \"the cat\", \"stop\": [\"$stop\"]}" >prompts.jsonl
expect 0 '' lm-ckpt generate c --prompts prompts.jsonl --max-new-tokens 40 -q
[ "$(jq -c '[.prompt, .prompt_tokens, (.ids | length), .finish]' out | paste -sd ' ')" = \
    '["the cat",7,5,"length"] [null,7,40,"length"] ["the cat",7,'"$(jq -s '.[2].ids | length' out)"',"stop"]' ] || fail "$(cat out)"
[ "$(jq -r 'select(.prompt == null).text' out)" = "$(cat greedy)" ] || fail "ids: $(cat out)"
expect 0 'note: .* 64 tokens' lm-ckpt generate c --prompt "the cat" --ignore-eod --json
[ "$(jq -c '[.finish, (.ids | length)]' out)" = '["context",58]' ] || fail "context: $(cat out)"

expect 0 '' lm-ckpt generate c --prompt "$(printf '%065d' 0)" --max-new-tokens 4 --cut-prompts --json -q
[ "$(jq -c '[.prompt_tokens, (.ids | length)]' out)" = '[60,4]' ] || fail "cut prompt: $(cat out)"

# Prompts of a file decode together. Each text is the one that its prompt gets alone, greedily and sampled, for any size of the
# batch, and the texts are in the order of the prompts although some end early.
for n in 1 30 2 17 50 3 9 24 8 40 5; do
    jq -nc --arg text "$(head -c $n corpus.jsonl | tr -dc 'a-z ')" --argjson n $((n * 7 % 41)) \
        --arg stop "$stop" '{prompt: ($text + "a"), max_new_tokens: $n} + (if $n % 3 == 0 then {stop: $stop} else {} end)'
done >many.jsonl
for sampling in "" "--temperature 1.3" "--top-k 9 --top-p 0.9 --seed 5"; do
    # shellcheck disable=SC2086
    lm-ckpt generate c --prompts many.jsonl -q --batch-size 1 --threads 1 $sampling >one
    [ "$(jq -r .prompt one)" = "$(jq -r .prompt many.jsonl)" ] || fail "order: $(cat one)"
    for flags in "" "--batch-size 4" "--batch-size 11 --memory 1KiB" "--dtype fp32 --threads 3"; do
        # shellcheck disable=SC2086
        lm-ckpt generate c --prompts many.jsonl -q $flags $sampling >together 2>/dev/null
        cmp one together || fail "$flags $sampling: other texts: $(diff one together)"
        # shellcheck disable=SC2086
        lm-ckpt generate c --prompts - -q $flags $sampling <many.jsonl >together 2>/dev/null
        cmp one together || fail "standard input, $flags $sampling: other texts: $(diff one together)"
    done
done
expect 2 '--batch-size: .*1, got 0' lm-ckpt generate c --prompts many.jsonl --batch-size 0
# A wrong line on standard input ends the program after the texts of the lines before it.
{ head -n 5 many.jsonl; echo '{'; tail -n 2 many.jsonl; } >wrong.jsonl
code=0
lm-ckpt generate c --prompts - -q <wrong.jsonl >together 2>err || code=$?
[ $code = 3 ] || fail "exit code $code: $(cat err)"
grep -q 'standard input:6: ' err || fail "$(cat err)"
lm-ckpt generate c --prompts many.jsonl -q >one
head -n 5 one | cmp - together || fail "texts before a wrong line: $(cat together)"
# If the memory does not suffice for all, fewer prompts decode together: keys and values of 50,000 tokens have 410 MB.
lm-train --mock-data --num-layers 2 --hidden-size 512 --num-attention-heads 2 --seq-length 8 --max-position-embeddings 50K \
    --position-embedding-type rope --vocab-size 300 --micro-batch-size 1 --global-batch-size 1 --train-iters 1 --lr 1e-3 \
    --threads 1 --eval-iters 0 --save long >/dev/null 2>&1
printf '{"prompt": [%d, 2], "max_new_tokens": 9}\n' {1..8} >ids.jsonl
lm-ckpt generate long --prompts ids.jsonl -q >one
(ulimit -v 4000000 && lm-ckpt generate long --prompts - <ids.jsonl >out 2>err) || fail "$(cat err)"
grep -q 'note: long/global_step1: .* 391 MiB.* instead of 16' err || fail "$(cat err)"
cmp one out || fail "fewer prompts together: $(cat out)"

# Standard input is a conversation: the answer to a line does not wait for the next line.
mkfifo lines
lm-ckpt generate c --prompts - --max-new-tokens 5 -q <lines >answers &
talker=$!
exec 7>lines
for n in 1 2; do
    echo '{"prompt": "the cat", "stop": "'"$stop"'"}' >&7
    until [ "$(wc -l <answers)" = $n ]; do kill -0 $talker || fail "generate ended"; sleep 0.02; done
done
exec 7>&-
wait $talker

# Bad input: one line, before the weights are loaded.
expect 2 '--prompt: .*missing' lm-ckpt generate c
expect 2 '--prompt: .*--prompts' lm-ckpt generate c --prompt a --prompts prompts.jsonl
expect 2 '--prompt: .*65 tokens.* 64 tokens' \
    lm-ckpt generate c --prompt "$(printf '%065d' 0)"
expect 2 '--prompt: .*byte 2' lm-ckpt generate c --prompt $'a\xff'
expect 2 '--temperature: .*got -1' lm-ckpt generate c --prompt a --temperature=-1
expect 2 '--temperature: 0 .*--top-p' lm-ckpt generate c --prompt a --temperature 0 --top-p 0.5
expect 2 '--top-p: .*0' lm-ckpt generate c --prompt a --top-p 0
echo '{"prompt": [1, 300]}' >bad.jsonl
expect 2 ' bad.jsonl:1: .* 300.* 0 to 256' lm-ckpt generate c --prompts bad.jsonl
echo '{"text": "a"}' >bad.jsonl
expect 3 " bad.jsonl:1: 'prompt' " lm-ckpt generate c --prompts bad.jsonl
echo '{' >bad.jsonl
expect 3 ' bad.jsonl:1: .*JSON' lm-ckpt generate c --prompts bad.jsonl
expect 2 ' /dev/null: ' lm-ckpt generate c --prompts /dev/null
echo '{"prompt": "a", "max_new_tokens": -1}' >bad.jsonl
expect 3 " bad.jsonl:1: 'max_new_tokens' .*-1" lm-ckpt generate c --prompts bad.jsonl
echo '{"prompt": "a", "stop": [1]}' >bad.jsonl
expect 3 " bad.jsonl:1: 'stop'.0. .* 1" lm-ckpt generate c --prompts bad.jsonl
expect 2 '--prompt: .*stop' lm-ckpt generate c --prompt a --stop ''
expect 2 ' c/global_step60: .* 257 ids.* GPT2BPETokenizer .*50257' \
    lm-ckpt generate c --prompt a --tokenizer-type GPT2BPETokenizer
lm-train --mock-data --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 24 --vocab-size 300 \
    --micro-batch-size 2 --global-batch-size 2 --train-iters 1 --lr 1e-3 --threads 1 --eval-iters 0 --save mock \
    >/dev/null 2>&1
expect 2 ' mock/global_step1: .*--tokenizer-model FILE' lm-ckpt generate mock --prompt a
echo '{"prompt": [1, 2], "max_new_tokens": 3}' >ids.jsonl
expect 0 '' lm-ckpt generate mock --prompts ids.jsonl
[ "$(jq -c '[(.ids | length), .text]' out)" = '[3,null]' ] || fail "ids without a tokenizer: $(cat out)"
expect 2 '--stop: .*tokenizer' lm-ckpt generate mock --prompts ids.jsonl --stop x
flip c/global_step60/weights-00000.safetensors
expect 3 'weights-00000.safetensors: tensor .*checksum' lm-ckpt generate c --prompt a

# The light verbs do not load the engine.
if ldd "$bin/lm-ckpt" | grep -E 'liblm_train|dnnl'; then fail "lm-ckpt is linked with the engine"; fi
mapped() { LD_DEBUG=files "$@" 2>&1 >/dev/null | grep -c 'calling init:.*liblm_train' || true; }
[ "$(mapped lm-ckpt ls cut)" = 0 ] || fail "ls loads the engine"
[ "$(mapped lm-ckpt generate cut --prompt a --max-new-tokens 1)" = 1 ] || fail "generate does not load the engine"
echo "lm-ckpt generate: all as promised"
