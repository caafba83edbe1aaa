#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-preprocess train-tokenizer, encode and decode.
# timeout: 120
# shellcheck source-path=SCRIPTDIR source=common.bash
source "$(dirname "$0")/common.bash"

python3 - <<'PY'
import json, random
rng = random.Random(5)
words = ["the", "of", "naïve", "don't", "  two", "\n\n", "日本語", "Привет", "e\u0301", "x=1;", "\t", "2024", "<|endoftext|>"]
with open("a.jsonl", "w") as out:
    for i in range(4000):
        out.write(json.dumps({"text": f"{i} " + " ".join(rng.choice(words) for _ in range(rng.randrange(1, 100)))}) + "\n")
PY

# The same files for any number of workers and any compression.
gzip -k a.jsonl
run one.json lm-preprocess train-tokenizer --input a.jsonl --vocab-size 400 --output one --workers 1 --json
run two.json lm-preprocess train-tokenizer --input a.jsonl.gz --vocab-size 400 --output two --workers 3 --quiet
for f in vocab.json merges.txt tokenizer.json tokenizer_config.json; do cmp one/$f two/$f || fail "$f"; done
jq -e '.documents == 4000 and .bytes_per_token > 1.5 and .vocab_size <= 400' one.json >/dev/null || fail "statistics"
jq -e '.added_tokens[0].content == "<|endoftext|>"' one/tokenizer.json >/dev/null || fail "tokenizer.json"
expect 2 ' one: ' lm-preprocess train-tokenizer --input a.jsonl --vocab-size 400 --output one
expect 0 '' lm-preprocess train-tokenizer --input a.jsonl --vocab-size 300 --output two --force
# --force replaces only a tokenizer.
echo precious > two/notes
for output in two . "$PWD"; do
    expect 2 " $output: .*tokenizer" lm-preprocess train-tokenizer --input a.jsonl --vocab-size 300 --output "$output" --force
done
rm two/notes
expect 2 ' a.jsonl: ' lm-preprocess train-tokenizer --input a.jsonl --vocab-size 300 --output a.jsonl --force

# tokenizer.json states every pre-tokenizer and normal form, and reading it back gives the same ids.
for style in gpt2 llama3 qwen2 qwen3.5 o200k tekken bloom starcoder digits deepseek-v3 deepseek-coder falcon; do
    run log lm-preprocess train-tokenizer --input a.jsonl --vocab-size 350 --output $style --pretokenizer $style --normalizer nfc
    printf "naïve  e\u0301 don't 20245\n" >text
    lm-preprocess encode --tokenizer-model $style <text | lm-preprocess decode --tokenizer-model $style >back
    printf "naïve  \u00e9 don't 20245\n" | cmp - back || fail "$style: $(cat back)"
done

# Half of the input, few pieces, several special tokens.
expect 0 'note: .*pre-tokens: ' lm-preprocess train-tokenizer --input a.jsonl --vocab-size 300 \
    --output few --max-pieces 1000 --limit 200KB --special-tokens '<unk>' '<s>' '</s>'
[ "$(lm-preprocess encode --append-eod --tokenizer-model few <<<'' | tr -d '\n')" = 2 ] || fail "end of document of few"
expect 2 '--vocab-size: 100 .* 259' lm-preprocess train-tokenizer --input a.jsonl --vocab-size 100 \
    --output x --special-tokens '<a>' '<b>' '<c>'
expect 2 "special token: 'a' " lm-preprocess train-tokenizer --input a.jsonl --vocab-size 500 --output x --special-tokens a
{ cat a.jsonl; echo '{"text": 7}'; } >bad.jsonl
expect 3 ' bad.jsonl:4001:10: ' lm-preprocess train-tokenizer --input bad.jsonl --vocab-size 300 --output x
expect 0 'warning: bad.jsonl:4001:10: .*skipped' \
    lm-preprocess train-tokenizer --input bad.jsonl --vocab-size 300 --output x --on-bad-line skip
echo >empty.jsonl
expect 3 '--input: .*text' lm-preprocess train-tokenizer --input empty.jsonl --vocab-size 300 --output y
nothing_under y

# Text to ids and back, in three forms.
printf 'Hello world\n\nna\xc3\xafve <|endoftext|>\n' >text
lm-preprocess encode <text >ids
[ "$(head -1 ids)" = '15496 995' ] || fail "ids: $(cat ids)"
lm-preprocess decode <ids | cmp - text || fail "decode"
lm-preprocess encode --json <text >ids.json
[ "$(head -1 ids.json)" = '{"ids":[15496,995],"tokens":["Hello","Ġworld"]}' ] || fail "json: $(cat ids.json)"
lm-preprocess decode <ids.json | cmp - text || fail "decode of objects"
[ "$(lm-preprocess decode --json <ids | tail -1)" = '{"text":"naïve <|endoftext|>"}' ] || fail "decode --json"
lm-preprocess encode --whole --binary <text >ids.bin
lm-preprocess decode --binary <ids.bin | cmp - text || fail "binary"
[ "$(lm-preprocess encode --append-eod --special-in-text parse <text | tail -1)" = '2616 38776 220 50256 50256' ] ||
    fail "special: $(lm-preprocess encode --append-eod --special-in-text parse <text | tail -1)"
[ "$(printf 'a\xff' | lm-preprocess encode --tokenizer-type ByteTokenizer 2>&1)" != '97 255' ] || fail "encode takes invalid text"
[ "$(printf 'ab' | lm-preprocess encode --tokenizer-type ByteTokenizer --append-eod)" = '97 98 256' ] || fail "bytes"
feed() { local input=$1; shift; printf %b "$input" | "$@"; }
fed() { local code=$1 pattern=$2 got=0; shift 2; "$@" >out 2>err || got=$?
    if [ $got != "$code" ] || ! grep -Eq -- "$pattern" err; then fail "$*: exit $got: $(cat err)"; fi; }
no_id='.* 50257: .* 50257 ids'
fed 3 "^lm-preprocess: standard input:2: $no_id" feed '1\n2 50257\n' lm-preprocess decode
fed 3 "^lm-preprocess: standard input:2: $no_id" feed '1\n{"ids":[50257]}\n' lm-preprocess decode
fed 3 "^lm-preprocess: standard input: $no_id" feed '\0121\0304' lm-preprocess decode --binary
fed 3 ' standard input:1:3: ' feed '1 x\n' lm-preprocess decode
fed 3 ' standard input: .*id' feed 'abc' lm-preprocess decode --binary
fed 3 ' standard input:1:2: ' feed 'a\0377\n' lm-preprocess encode
expect 2 '--binary: .*--json' lm-preprocess encode --json --binary
echo "all is right"
