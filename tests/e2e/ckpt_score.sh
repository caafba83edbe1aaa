#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-ckpt score on datasets, texts, requests and questions, with several checkpoints, after a kill, and with bad input.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

make_corpus corpus.jsonl 60
lm-preprocess --input corpus.jsonl --output-prefix data --append-eod --tokenizer-type ByteTokenizer -q
lm-train --data-path data_text_document --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 64 \
    --micro-batch-size 8 --global-batch-size 8 --train-iters 60 --lr 1e-2 --lr-warmup-iters 5 --threads 1 --eval-iters 0 \
    --save c --save-interval 20 >/dev/null 2>&1

# A dataset and its texts: the same tokens, except the ends of documents.
expect 0 '' lm-ckpt score c data_text_document -q
mv out bin
[ "$(wc -l <bin)" = 61 ] || fail "a line for each document and the total: $(cat bin)"
bytes=$(jq -r .text corpus.jsonl | awk '{ n += length($0) } END { print n }')
jq -se --argjson n "$bytes" '.[60] | .kind == "total" and .iteration == 60 and .documents == 60 and .bytes == $n
    and .tokens == $n + 60 and (.loss - (.perplexity | log) | fabs) < 1e-9' bin >/dev/null || fail "total: $(tail -n 1 bin)"
jq -se '([.[:60][].log_probability] | add) as $sum | .[60] | (.bits_per_byte + $sum / 0.6931471805599453 / .bytes | fabs) < 1e-9' \
    bin >/dev/null || fail "bits per byte: $(tail -n 1 bin)"
expect 0 '' lm-ckpt score c data_text_document.bin --limit 3 -q --threads 3
[ "$(head -n 3 out)" = "$(head -n 3 bin)" ] || fail "threads or --limit change a score: $(cat out)"
expect 0 '' lm-ckpt score c corpus.jsonl -q
jq -se --argjson n "$bytes" '.[60] | .bytes == $n and .tokens == $n' out >/dev/null || fail "texts: $(tail -n 1 out)"
sed 's/"text"/"body"/' corpus.jsonl >body.jsonl
lm-ckpt score c body.jsonl --json-key body -q >body.out
cmp -s out body.out || fail "--json-key: $(tail -n 1 body.out)"

# Several checkpoints, of any layout: one total for each. A later checkpoint has a better total.
lm-ckpt reshard c cut --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 >/dev/null
expect 0 '' lm-ckpt score c/global_step20 c/global_step40 cut data_text_document --totals -q
jq -se 'length == 3 and .[0].loss > .[2].loss and [.[].iteration] == [20, 40, 60]' out >/dev/null || fail "curve: $(cat out)"
[ "$(jq .loss out | tail -n 1)" = "$(jq .loss bin | tail -n 1)" ] || fail "another layout, another loss: $(cat out)"

# Requests and questions. Ids or texts give the same score.
ids() { printf '%s' "$1" | od -An -v -tu1 | tr -s ' \n' ',' | sed 's/^,//; s/,$//; s/.*/[&]/'; }
cat >requests.jsonl <<END
{"context": "the cat sat", "continuation": " on a mat"}
{"context": $(ids "the cat sat"), "continuation": $(ids " on a mat")}
{"context": "the cat sat ", "continuation": "on a mat"}
{"context": "", "continuation": "the"}
{"context": "the cat", "choices": [" sat on", " zqx", " dog"], "label": 0}
{"context": "the cat", "choices": [" sat on"]}
END
expect 0 '' lm-ckpt score c requests.jsonl -q
[ "$(jq -c .log_probability out | sed -n 1p)" = "$(jq -c .log_probability out | sed -n 2p)" ] || fail "ids: $(cat out)"
[ "$(jq -c .log_probability out | sed -n 1p)" = "$(jq -c .log_probability out | sed -n 3p)" ] || fail "a space: $(cat out)"
jq -se '.[0].tokens == 9 and .[3].tokens == 3 and .[4].choices[0].characters == 6 and .[4].correct_normalized and (.[5] | has("correct") | not)
    and (.[4].choices[0].log_probability - .[5].choices[0].log_probability | fabs) < 1e-4 and .[6].requests == 4
    and .[6].questions == 2 and .[6].accuracy_normalized == 1' out >/dev/null || fail "requests: $(cat out)"

# A document without tokens has no loss; a model of Hugging Face has no iteration.
lm-convert c hf -q 2>/dev/null
echo '{"text": ""}' >empty.jsonl
expect 0 '' lm-ckpt score hf empty.jsonl -q --tokenizer-type ByteTokenizer
jq -se '.[0].tokens == 0 and ([.[] | has("loss"), has("bits_per_byte"), has("iteration")] | any | not)' out >/dev/null || fail "no tokens: $(cat out)"

# Killed and stopped runs continue; the file has the same bytes, and appears whole.
expect 0 '' lm-ckpt score c/global_step20 c data_text_document --output whole.jsonl -q
nothing_under whole.jsonl.partial
[ "$(wc -l <whole.jsonl)" = 122 ] || fail "two checkpoints: $(wc -l <whole.jsonl)"
n_results() { { grep -c . r.jsonl.partial 2>/dev/null || true; } | grep . || echo 0; }
for signal in KILL TERM; do
    before=$(n_results)
    lm-ckpt score c/global_step20 c data_text_document --output r.jsonl --resume -q 2>err &
    scorer=$!
    until [ "$(n_results)" -ge $((before + 5)) ] || ! kill -0 $scorer 2>/dev/null; do :; done
    kill -s $signal $scorer 2>/dev/null || true
    code=0
    wait $scorer || code=$?
    case $signal-$code in
        *-0 | KILL-137) ;;
        TERM-75) grep -q 'SIGTERM: .*r.jsonl.partial .*--resume' err ||
            fail "stopped: $(cat err)" ;;
        *) fail "SIG$signal: exit $code: $(cat err)" ;;
    esac
    [ $code != 0 ] || { rm r.jsonl; break; }
done
[ ! -e r.jsonl.partial ] || printf '{"kind": "doc' >>r.jsonl.partial # a line that was cut
[ ! -e r.jsonl.partial ] || expect 2 ' r.jsonl.partial: ' \
    lm-ckpt score c data_text_document --output r.jsonl --resume
expect 0 '' lm-ckpt score c/global_step20 c data_text_document --output r.jsonl --resume -q
cmp -s r.jsonl whole.jsonl || fail "a resumed run gives another file"
expect 2 ' r.jsonl: ' lm-ckpt score c data_text_document --output r.jsonl
expect 3 '' env LM_IO_FAULT=short:2 lm-ckpt score c data_text_document --output full.jsonl -q
[ ! -e full.jsonl ] || fail "a file after a failed write"

# Bad input: one line.
expect 2 ' DATA: ' lm-ckpt score c
expect 2 ' nope: .*nope.bin' lm-ckpt score c nope
expect 2 '--resume: .*--output' lm-ckpt score c corpus.jsonl --resume
expect 2 '--totals: .*--output' lm-ckpt score c corpus.jsonl --totals --output x
bad() {
    echo "$2" >bad.jsonl
    expect 3 "bad.jsonl:1: $1" lm-ckpt score c bad.jsonl
}
bad ".*'text'.*'context'" '{"prompt": "a"}'
bad ".*'text'.*'context'" '[1]'
bad "'continuation' " '{"context": "a"}'
bad "the continuation " '{"context": "a", "continuation": ""}'
bad ".*texts.*ids" '{"context": "a", "continuation": [1]}'
bad "'choices' " '{"context": "a", "choices": []}'
bad "'label' .*2, .*0 to 1" '{"context": "a", "choices": ["a", "b"], "label": 2}'
echo "{\"context\": [1], \"continuation\": [300]}" >bad.jsonl
expect 2 ' bad.jsonl:1: .* 300.* 0 to 256' lm-ckpt score c bad.jsonl
echo "{\"context\": \"a\", \"continuation\": \"$(printf '%065d' 0)\"}" >bad.jsonl
expect 2 ' bad.jsonl:1: .* 65 tokens.* 64' lm-ckpt score c bad.jsonl
# All bad items are named before the first is scored.
printf '%s\n' '{"context": "a", "continuation": "b"}' '{"context": "a", "continuation": ""}' '{"context": [1], "continuation": [300]}' \
    >bad.jsonl
expect 3 ' bad.jsonl:2: ' lm-ckpt score c bad.jsonl --output bad.out -q
if [ "$(grep -c ' bad.jsonl:' err)" != 2 ] || [ -e bad.out ]; then fail "bad items: $(cat err)"; fi
lm-train --mock-data --num-layers 1 --hidden-size 32 --num-attention-heads 2 --seq-length 24 --vocab-size 300 \
    --micro-batch-size 2 --global-batch-size 2 --train-iters 1 --lr 1e-3 --threads 1 --eval-iters 0 --save mock \
    >/dev/null 2>&1
expect 2 ' mock/global_step1: .*--tokenizer-model FILE' lm-ckpt score mock corpus.jsonl
expect 0 '' lm-ckpt score mock data_text_document -q --limit 2
jq -se '.[2] | has("loss") and (has("bits_per_byte") | not)' out >/dev/null || fail "no tokenizer: $(cat out)"
echo "lm-ckpt score: all as promised"
