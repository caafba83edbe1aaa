#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A step holds the files of its tokenizer: generate, score and the export need no option, every copy of a step has them, verify
# finds damage in them, and a resume without the original files keeps them.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

make_corpus corpus.jsonl 200
run log lm-preprocess train-tokenizer --input corpus.jsonl --vocab-size 300 --output tok -q
lm-preprocess --input corpus.jsonl --output-prefix data --append-eod --tokenizer-model tok/tokenizer.json -q
model="--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 64 --micro-batch-size 2 --global-batch-size 2
    --lr 1e-3 --lr-decay-iters 20 --threads 1 --eval-iters 0 --device cpu"
train() { # shellcheck disable=SC2086
    lm-train $model --data-path data_text_document "$@" >/dev/null 2>err || fail "$(cat err)"
}
names="tokenizer.json tokenizer_config.json"
holds() {
    for name in $names; do cmp "tok.saved/$name" "$1/$name" || fail "$1: $name"; done
    [ "$(jq -c '[.tokenizer.files[].file]' "$1/manifest.json")" = '["tokenizer.json","tokenizer_config.json"]' ] ||
        fail "$1: $(jq -c .tokenizer "$1/manifest.json")"
    expect 0 '' lm-ckpt verify "$1"
}
cp -a tok tok.saved

# The tokenizer of the data's metadata file, and the one of the flags.
train --train-iters 4 --save-interval 2 --save c
holds c/global_step2
train --train-iters 2 --save-interval 2 --save flags --tokenizer-model tok
holds flags/global_step2
expect 0 '' lm-ckpt generate c --prompt "the cat" --max-new-tokens 5 -q --tokenizer-model tok
cp out given

# Without the original files: generate, score, the export and its import, and a resume.
mv tok elsewhere
expect 0 '' lm-ckpt generate c --prompt "the cat" --max-new-tokens 5 -q
cmp given out || fail "generate: $(cat out)"
echo '{"text": "the cat"}' >text.jsonl
expect 0 '' lm-ckpt score c text.jsonl --totals
run log lm-convert c hf --check --json
jq -e '.has_tokenizer' log >/dev/null || fail "export: $(cat log)"
for name in $names; do cmp "tok.saved/$name" "hf/$name" || fail "export: $name"; done
run log lm-convert hf native -q
for name in $names; do cmp "tok.saved/$name" "native/global_step0/$name" || fail "import: $name"; done
expect 0 '' lm-ckpt verify native
train --train-iters 6 --save-interval 2 --save c --load c
holds c/global_step6
mkdir tok
jq '.added_tokens[0].content = "<|end|>"' tok.saved/tokenizer.json >tok/tokenizer.json
train --train-iters 8 --save-interval 2 --save c --load c
holds c/global_step8 # a file that is not the data's tokenizer any more is not stored

# Every copy has the files.
lm-ckpt sync c backup >/dev/null
holds backup/global_step8
lm-ckpt copy c/global_step8 weights --weights-only >/dev/null
holds weights/global_step8
lm-ckpt reshard c cut --tensor-model-parallel-size 2 >/dev/null
holds cut/global_step8
lm-ckpt merge mean c/global_step6 c/global_step8 >/dev/null
holds mean/global_step8
lm-ckpt prune backup --keep-last 2 --weights-only-older-than 1 >/dev/null
holds backup/global_step6
[ ! -e backup/global_step6/optim-00000.safetensors ] || fail "prune: $(ls backup/global_step6)"

# Damage, and a missing file.
flip backup/global_step8/tokenizer.json
expect 1 '' lm-ckpt verify backup/global_step8
grep -q 'backup/global_step8/tokenizer.json: checksum' out || fail "verify: $(cat out)"
expect 3 'backup/global_step8/tokenizer.json: checksum' lm-ckpt copy backup/global_step8 damaged
[ ! -e damaged/global_step8 ] || fail "a damaged tokenizer was copied"
rm backup/global_step8/tokenizer.json
expect 1 '' lm-ckpt verify backup/global_step8
grep -q 'backup/global_step8/tokenizer.json: is missing' out || fail "verify: $(cat out)"
rm -rf mean/global_step8/tokenizer.json c/global_step8/tokenizer.json
train --train-iters 10 --save-interval 2 --save c --load c
grep -q 'warning: c/global_step8/tokenizer.json: .*do not store' err || fail "$(cat err)"
[ "$(jq -c .tokenizer.files c/global_step10/manifest.json)" = null ] || fail "a tokenizer from nowhere"

# vocab.json and merges.txt; the export states their class. An installed tokenizer is not stored.
rm -rf tok && mv elsewhere tok
lm-preprocess --input corpus.jsonl --output-prefix bpe --append-eod --vocab-file tok/vocab.json --merge-file tok/merges.txt -q
# shellcheck disable=SC2086
lm-train $model --data-path bpe_text_document --train-iters 2 --save bpe --position-embedding-type rope >/dev/null 2>&1
for name in vocab.json merges.txt; do cmp tok/$name bpe/global_step2/$name || fail "$(ls bpe/global_step2)"; done
expect 0 '' lm-ckpt generate bpe --prompt "the cat" --max-new-tokens 2 -q
# The same files of a class with another pre-tokenizer, from the data to the import of an export.
mkdir qwen && cp tok/vocab.json tok/merges.txt qwen && echo '{"tokenizer_class": "Qwen2Tokenizer"}' >qwen/tokenizer_config.json
echo '{"text": "the cat 2024"}' >digits.jsonl
lm-preprocess --input corpus.jsonl --output-prefix qwen --append-eod --tokenizer-model qwen -q
# shellcheck disable=SC2086
lm-train $model --data-path qwen_text_document --train-iters 2 --save qwen2 >/dev/null 2>err || fail "$(cat err)"
run log lm-convert qwen2 qwen2-hf -q
run log lm-convert qwen2-hf qwen2-native -q
n=$(jq -r .text digits.jsonl | lm-preprocess encode --tokenizer-model qwen | wc -w)
for at in qwen2 qwen2-hf qwen2-native; do
    expect 0 '' lm-ckpt score "$at" digits.jsonl
    ! grep -q tokenizer err || fail "$at: $(cat err)"
    [ "$(jq 'select(.kind == "document").tokens' out)" = "$n" ] || fail "$at: $(cat out)"
done
echo '{"tokenizer_class": "RobertaTokenizer"}' >qwen/tokenizer_config.json
expect 2 'qwen: .*RobertaTokenizer.*save_pretrained' lm-preprocess encode --tokenizer-model qwen
rm -r qwen2-hf/tokenizer_config.json && echo '{"tokenizer_class": "RobertaTokenizer"}' >qwen2-hf/tokenizer_config.json
expect 2 'RobertaTokenizer' lm-ckpt generate qwen2-hf --prompt "the cat" --max-new-tokens 2 -q
lm-preprocess --input corpus.jsonl --output-prefix bytes --append-eod --tokenizer-type ByteTokenizer -q
# shellcheck disable=SC2086
lm-train $model --data-path bytes_text_document --train-iters 2 --save bytes >/dev/null 2>&1
[ "$(jq -c .tokenizer.files bytes/global_step2/manifest.json)" = null ] || fail "an installed tokenizer was stored"
expect 0 '' lm-ckpt generate bytes --prompt "the cat" --max-new-tokens 2 -q

# Data whose special tokens are plain text: the steps are scored alike, with the same number of tokens.
jq -nc '{text: "the <|endoftext|> cat"}' >special.jsonl
cat special.jsonl corpus.jsonl >both.jsonl
lm-preprocess --input both.jsonl --output-prefix plain --append-eod --tokenizer-model tok --special-in-text plain -q
for given in "" "--tokenizer-model tok"; do
    # shellcheck disable=SC2086
    lm-train $model --data-path plain_text_document --train-iters 2 --save plain --load plain $given >/dev/null 2>err ||
        fail "$(cat err)"
    ! grep -q tokenizer err || fail "$given: $(cat err)"
    [ "$(jq -r .tokenizer.digest plain/global_step2/manifest.json)" = "$(jq -r .tokenizer.digest plain_text_document.json)" ] ||
        fail "$given: another digest"
    # shellcheck disable=SC2086
    expect 0 '' lm-ckpt score plain special.jsonl $given
    [ ! -s err ] || fail "$given: $(cat err)"
    [ "$(jq 'select(.kind == "document").tokens' out)" = "$(jq -r .text special.jsonl | lm-preprocess encode --tokenizer-model tok --special-in-text plain | wc -w)" ] ||
        fail "$given: $(cat out)"
    rm -r plain
done

# An imported step holds the files of its tokenizer, and states no digest: data with the same ids trains, other data does not. The
# files pass through Megatron's format.
tune() { # CODE PATTERN FLAG...: two iterations from the imported step
    # shellcheck disable=SC2086
    expect "$1" "$2" lm-train $model --finetune --load native --train-iters 2 --save tuned "${@:3}"
}
tune 0 '' --data-path data_text_document
! grep -q tokenizer err || fail "$(cat err)"
holds tuned/global_step2
rm -r tuned
tune 0 'note: native/global_step0: .*same ids' --data-path bpe_text_document
rm -r tuned
jq -c '.text |= ascii_upcase' corpus.jsonl >other.jsonl
run log lm-preprocess train-tokenizer --input other.jsonl --vocab-size 300 --output other -q
lm-preprocess --input other.jsonl --output-prefix other --append-eod --tokenizer-model other -q
tune 2 '--load: .*native/global_step0|native/global_step0: --load: ' --data-path other_text_document
nothing_under tuned
tune 0 'note: .*--override-tokenizer' --data-path other_text_document --override-tokenizer
run log lm-convert native megatron --to megatron-lm -q
run log lm-convert megatron again -q
holds again/global_step0
# Megatron's tokenizer lies in the run's directory. A step that is named alone finds it there.
run log lm-convert native deepspeed --to megatron-deepspeed -q
for step in megatron/iter_0000000 deepspeed/global_step0; do
    rm -r again
    run log lm-convert "$step" again --check
    holds again/global_step0
    rm -r again
    (cd "$step" && lm-convert . "$OLDPWD/again" -q 2>"$OLDPWD/err") || fail "$(cat err)"
    holds again/global_step0
done
cp tok/vocab.json . # a model that has no step's name, in a directory with another tokenizer
cp -r megatron/iter_0000000 model
rm -r again
run log lm-convert model again -q
[ "$(jq -c .tokenizer.files again/global_step0/manifest.json)" = null ] || fail "another tokenizer was stored"

# A pointer in place of a file is noted, and not stored.
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n' >hf/tokenizer.json
expect 0 'note: hf/tokenizer.json: not stored: ' lm-convert hf pointer
[ ! -e pointer/global_step0/tokenizer.json ] || fail "a pointer was stored"

# A local step has the files, and so has the step that a start makes of it.
# shellcheck disable=SC2206
two=(lm-train $model --data-path data_text_document --train-iters 100000 --save two --load two --save-interval 90000
    --local-save local --local-save-interval 2)
"${two[@]}" >/dev/null 2>err &
trainer=$!
until compgen -G 'local/*/global_step[1-9][0-9]*' >/dev/null; do kill -0 $trainer || fail "$(cat err)"; sleep 0.05; done
kill -9 $trainer
wait $trainer || true
"${two[@]}" --exit-interval 1 >/dev/null 2>err || [ $? = 75 ] || fail "$(cat err)"
restored=$(grep -o 'note: two/global_step[0-9]*: copied from local steps' err | grep -o 'two/global_step[0-9]*') || fail "$(cat err)"
holds "$restored"
echo "stored tokenizer: all as promised"
