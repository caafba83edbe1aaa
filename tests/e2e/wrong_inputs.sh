#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The errors of wrong command lines and damaged files: wrong_inputs.tsv has an exit code, a command and its errors. A refused
# command also leaves all files as they were. With --write after BUILD this script writes the table again: read its diff as
# a user who meets these lines.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
here=$(realpath "$(dirname "$0")")
. "$here/common.bash"
table=$here/wrong_inputs.tsv

printf 'Some text.\nMore.\n' >plain.txt
echo '[{"text":"a"}]' >array.json
printf 'id,text\n1,a\n' >table.csv
printf 'PAR1\x15\x04' >data.parquet
: >empty.jsonl
printf '{"text":"a"}\n{"text":"b"\n' >broken.jsonl
echo '{"txt":"a"}' >nokey.jsonl
echo '{"text":5}' >number.jsonl
printf '{"text":"caf\xe9"}\n' >latin1.jsonl
for i in {1..60}; do echo "{\"text\":\"line $i of a small corpus\"}"; done >good.jsonl
gzip -c good.jsonl >whole.gz && head -c 60 whole.gz >truncated.jsonl.gz && rm whole.gz
cp plain.txt plain.gz
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n' >pointer.json
gzip -c good.jsonl | gzip -c >twice.jsonl.gz
# A zstd frame of dictionary 7 with one raw block, "x\n".
printf '\x28\xb5\x2f\xfd\x21\x07\x02\x11\0\0x\n' >dictionary.jsonl.zst
printf '\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02' >tokenizer.model
printf 'IQ== 0\nIg== 1\n' >ranks.tiktoken
echo '{"config": {"pattern": "x"}, "vocab": [], "special_tokens": []}' >tekken.json
mkdir emptydir pieces pair tracker && echo 20 >tracker/latest_checkpointed_iteration.txt
cp tokenizer.model pieces && echo '{"a": 0}' >pair/vocab.json && : >pair/merges.txt
lm-preprocess --input good.jsonl --output-prefix data --tokenizer-type ByteTokenizer --quiet
cp data_text_document.idx cut_text_document.idx
head -c 100 data_text_document.bin >cut_text_document.bin
cp data_text_document.idx lfs.idx
cp pointer.json lfs.bin
mkdir -p untracked/iter_0000020/mp_rank_00 && : >untracked/iter_0000020/mp_rank_00/model_optim_rng.pt
cp data_text_document.bin noidx.bin
lm-preprocess --input empty.jsonl --output-prefix empty --tokenizer-type ByteTokenizer --quiet 2>/dev/null

model="--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --micro-batch-size 1 --global-batch-size 2 \
    --lr 1e-3 --train-iters 4 --eval-iters 0 --threads 1 --device cpu"
# shellcheck disable=SC2034 # the commands of the table use them
T="--mock-data --vocab-size 50 $model" D="--tokenizer-type ByteTokenizer $model"
# shellcheck disable=SC2086
lm-train $T --save ck --save-interval 2 --quiet >log 2>&1
# shellcheck disable=SC2086
lm-train $T --save other --save-interval 2 --quiet --ffn-hidden-size 48 >log 2>&1
cp -r ck damaged
truncate -s -200 damaged/global_step4/optim-00000.safetensors
lm-convert ck hf --quiet 2>/dev/null
cp -r hf hfbad
truncate -s -50 hfbad/model.safetensors
cp -r hf hflfs
cp pointer.json hflfs/model.safetensors

tar cf model.tar hf
gzip -c model.tar >model.tar.gz
{ printf '\x1f\x8b\x08\0' && printf '[%.0s' {1..3000}; } >tokenizer.json.gz
printf 'GGUF\x03' >model.gguf
echo '{"tokenizer_class": "GPT2Tokenizer"}' >tokenizer_config.json
cp -r hf .dangling && ln -sf ../../blobs/1f2e .dangling/model.safetensors # hidden from --input .

files() { find . -type f -printf '%P %s %T@\n' -o -printf '%P\n' | grep -v '^\(out\|err\|table\) ' | sort; }
errors() { grep "^lm-[a-z]*: " err | grep -v '^lm-[a-z]*: note: ' | paste -sd'|' | sed 's/|/ | /g'; }

touch out err table
before=$(files)
while IFS=$'\t' read -r _ command _; do
    code=0
    eval "timeout 60 $command" >out 2>err </dev/null || code=$?
    printf '%s\t%s\t%s\n' $code "$command" "$(errors)" >>table
    [ "$(files)" = "$before" ] || fail "$command: files changed: $(diff <(echo "$before") <(files))"
done <"$table"
if [ "${2:-}" = --write ]; then cp table "$table"; fi
diff "$table" table || fail "the errors above differ (--write accepts them)"
[ "$(wc -l <table)" -gt 250 ] || fail "only $(wc -l <table) commands"
