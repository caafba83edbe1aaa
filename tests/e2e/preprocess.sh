#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-preprocess reads inputs in every compression, and writes the same bytes for any --workers. Also tests its verbs, and that
# every error gives one clear line and the right exit code.
# timeout: 400
here=$(realpath "$(dirname "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
lm=$bin/lm-preprocess

python3 - <<'PY'
import json, random
rng = random.Random(5)
words = ["the", "of", "naïve", "don't", "  two", "\n\n", "日本語", "Привет", "😀", "x=1;", "\t", "2024"]
with open("a.jsonl", "w") as out:
    for i in range(3000):
        text = " ".join(rng.choice(words) for _ in range(rng.randrange(0, 200)))
        out.write(json.dumps({"id": i, "text": text, "title": "t%d" % i, "x": [1, {"y": None}]},
                             ensure_ascii=i % 2 == 0) + "\n")
PY
gzip -k a.jsonl; xz -k a.jsonl
if command -v zstd > /dev/null; then zstd -q a.jsonl; else cp a.jsonl a.jsonl.zst; fi

# The same bytes for any compression and any number of workers.
"$lm" --input a.jsonl --output-prefix one --append-eod --workers 1 --quiet
for input in a.jsonl.gz a.jsonl.xz a.jsonl.zst -; do
    "$lm" --input $input --output-prefix two --append-eod --workers 3 --force --quiet < a.jsonl
    cmp one_text_document.bin two_text_document.bin && cmp one_text_document.idx two_text_document.idx
    cmp <(sed '/"origin"/,$d' one_text_document.json) <(sed '/"origin"/,$d' two_text_document.json)
done
# The same bytes for any instruction set.
for processor in avx2 portable; do
    LM_PROCESSOR=$processor "$lm" --input a.jsonl --output-prefix two --append-eod --force --quiet
    cmp one_text_document.bin two_text_document.bin
done
LM_PROCESSOR=sse expect 2 "LM_PROCESSOR: .*avx512, avx2 or portable, got 'sse'" "$lm" --input a.jsonl --output-prefix two --force
[ "$(grep -c LM_PROCESSOR err)" = 1 ] || fail "reported more than once: $(cat err)"
prints "tokens: valid" "$lm" verify one_text_document

# The filters encode and decode never decompress their input, even if its first bytes are those of a compressed format.
python3 -c 'import sys; sys.stdout.buffer.write(bytes.fromhex("1f8b0800e303"))' > ids.bin
"$lm" decode --binary < ids.bin > as_binary
echo '35615 8 995' | "$lm" decode --no-newline > as_text
cmp as_binary as_text
for text in 'PK\003\004 zip' 'P\052\115\030 zstd' 'BZh91AY&SY bzip2'; do
    # shellcheck disable=SC2059
    printf "$text" > magic
    "$lm" encode < magic > magic.ids
    "$lm" decode --no-newline < magic.ids > unchanged
    cmp unchanged magic
done
got=0
"$lm" encode < a.jsonl.gz > /dev/null 2> err || got=$?
[ $got = 3 ] || fail "encode of compressed data: exit $got"
grep -q ' standard input:1:2: ' err || fail "$(cat err)"

# The output decodes to the input.
"$lm" cat one_text_document > back.jsonl
python3 - <<'PY'
import json
source = [json.loads(line)["text"] for line in open("a.jsonl")]
back = [json.loads(line)["text"] for line in open("back.jsonl")]
assert [s for s in source if s] == back, "cat does not give the texts back"
PY

# A dataset is not decoded with another tokenizer than its own.
"$lm" --input a.jsonl --output-prefix bytes --tokenizer-type ByteTokenizer --append-eod --quiet
expect 3 ' bytes_text_document: .*ByteTokenizer' \
    lm-preprocess cat bytes_text_document --tokenizer-type GPT2BPETokenizer
[ ! -s out ] || fail "cat prints in spite of that"
expect 0 'warning: bytes_text_document: .*ByteTokenizer' \
    lm-preprocess cat bytes_text_document --tokenizer-type GPT2BPETokenizer --force --documents 0

# Invalid output names; tokenizers that do not exist.
mkdir din
expect 2 '--output-prefix: standard output' lm-preprocess --input a.jsonl --output-prefix -
expect 2 "--output-prefix: 'din/' " lm-preprocess --input a.jsonl --output-prefix din/
expect 2 "--output-prefix: 'din/' " lm-preprocess merge --output-prefix din/ one_text_document
[ -z "$(ls din)" ] || fail "written into din: $(ls din)"
expect 2 "--tokenizer-type: 'Llama2Tokenizer' " lm-preprocess --input a.jsonl --output-prefix x \
    --tokenizer-type Llama2Tokenizer --tokenizer-model t
expect 2 ' meta-llama/X: ' lm-preprocess --input a.jsonl \
    --output-prefix x --tokenizer-type HFTokenizer --tokenizer-model meta-llama/X

# --resume over complete outputs of another run: an error, and no new files.
expect 2 ' one_text_document: .*--append-eod true, not false: .*--force' \
    lm-preprocess --input a.jsonl --output-prefix one --resume
touch -r a.jsonl before
touch -d '+1 hour' a.jsonl
expect 2 ' one_text_document: .*inputs.*--force' \
    lm-preprocess --input a.jsonl --output-prefix one --append-eod --resume
touch -r before a.jsonl
expect 0 'note: one_text_document: .*complete' lm-preprocess --input a.jsonl --output-prefix one --append-eod --resume
[ ! -e one.unfinished ] || fail "a refused --resume leaves one.unfinished"

# Several keys, directories, merge.
mkdir d; split -n l/3 -d a.jsonl d/part.
"$lm" --input d --output-prefix keys --json-keys text title --append-eod --quiet --json > stats
grep -q '"documents":3000' stats
cmp keys_text_document.bin one_text_document.bin
for i in 0 1 2; do "$lm" --input d/part.0$i --output-prefix p$i --append-eod --quiet; done
"$lm" merge --output-prefix merged p0_text_document p1_text_document p2_text_document --quiet
cmp merged.bin one_text_document.bin && cmp merged.idx one_text_document.idx
"$lm" verify merged > /dev/null
# No text changes the terminal: JSON permits DEL and the C1 controls, which are escaped.
printf '{"text":"a\\u009b2Jb\\u007f\\u001bc\\u00a0"}\n' >c1.jsonl
"$lm" --input c1.jsonl --output-prefix c1 --quiet
escaped='{"text":"a\u009b2Jb\u007f\u001bc'$'\xc2\xa0''"}'
[ "$("$lm" cat c1_text_document)" = "$escaped" ] || fail "cat: $("$lm" cat c1_text_document | cat -v)"
[ "$("$lm" cat --ids c1_text_document | jq -r '.ids | join(" ")' | "$lm" decode --json)" = "$escaped" ] || fail "decode --json"
# A merge of shards has each of them once, of one division of the input.
for i in 0 1 2 3; do "$lm" --input d --output-prefix s$i --append-eod --shard $i/4 --quiet; done
"$lm" merge --output-prefix sharded s0_text_document s1_text_document s2_text_document s3_text_document --quiet
cmp sharded.bin one_text_document.bin
expect 3 '--shard 2/4: 0 .* 1 ' "$lm" merge --output-prefix lost s0_text_document s1_text_document s3_text_document
expect 3 '--shard 0/4: 0 .* 1 ' "$lm" merge --output-prefix lost s1_text_document s2_text_document s3_text_document
expect 3 '--shard 1/4: 2 .* 1 ' "$lm" merge --output-prefix lost s{0,1,1,2,3}_text_document
"$lm" --input d --output-prefix s2 --append-eod --shard 2/3 --quiet --force
expect 3 '--shard 0/3: 0 .* 1 ' "$lm" merge --output-prefix lost s{0,1,2,3}_text_document
[ ! -e lost.idx ] || fail "a merge of other shards"
# A dataset with modes is not merged without them.
cp one_text_document.bin modes.bin
{ cat one_text_document.idx; head -c "$("$lm" info --json one_text_document | jq .sequences)" /dev/zero; } >modes.idx
expect 3 ' modes: ' "$lm" merge --output-prefix lost modes one_text_document
[ ! -e lost.idx ] || fail "a merge without modes"
prints '"tokens":' "$lm" info --json merged
prints '^15496 995$' "$lm" encode <<<'Hello world'
prints '^Hello world$' "$lm" decode <<<'15496 995'

# Empty documents: dropped, or kept in the document index.
printf '{"text":"a"}\n\n{"text":""}\n{"text":["b","","c d"]}\n' > empty.jsonl
"$lm" --input empty.jsonl --output-prefix e --quiet
"$lm" --input empty.jsonl --output-prefix k --quiet --keep-empty
prints '"documents":2,"sequences":3' "$lm" info --json e_text_document
prints '"documents":3,"sequences":3' "$lm" info --json k_text_document
"$lm" verify k_text_document > /dev/null

# Errors of input and options.
expect 2 ' none.jsonl: ' "$lm" --input none.jsonl --output-prefix bad
# An input without documents is an empty dataset, as Megatron writes it, and a warning.
: > nothing.jsonl
printf '\n \r\n' > blank.jsonl
for input in nothing.jsonl blank.jsonl /dev/null; do
    expect 0 'warning: none_text_document: ' \
        "$lm" --input $input --output-prefix none --force
    "$lm" verify none_text_document > /dev/null
    [ "$(stat -c %s none_text_document.bin none_text_document.idx | xargs)" = "0 42" ] || fail "an empty dataset"
done
[ -z "$("$lm" cat none_text_document --ids)" ] || fail "cat of an empty dataset"
expect 2 "--documents: '0' " "$lm" cat none_text_document --ids --documents 0
expect 3 ' a.jsonl: .* 3000 lines' "$lm" --input a.jsonl --output-prefix bad --json-keys nope --on-bad-line skip
[ "$("$lm" info none_text_document | grep -c length)" = 0 ] || fail "the lengths of no sequences"
"$lm" merge --output-prefix onemore --quiet none_text_document one_text_document none_text_document
cmp onemore.bin one_text_document.bin
printf '{"text":"a"}\n{"text":"b"}\n{"text":"c\n{"text":"d"}\n' > third.jsonl
expect 3 ' third.jsonl:3:11: .*--on-bad-line skip' "$lm" --input third.jsonl --output-prefix bad
expect 3 ' third.jsonl:3:11: ' "$lm" --input third.jsonl --output-prefix bad --workers 1
expect 0 '3 documents.*1 lines skipped' "$lm" --input third.jsonl --output-prefix skipped --on-bad-line skip
printf '{"text":"a\xff b \\ud800"}\n' > bytes.jsonl
expect 3 ' bytes.jsonl:1:11: ' "$lm" --input bytes.jsonl --output-prefix bad
expect 0 'replaced' "$lm" --input bytes.jsonl --output-prefix rep --on-bad-line replace
[ "$("$lm" cat rep_text_document)" = '{"text":"a� b �"}' ] || fail "replace: $("$lm" cat rep_text_document)"
expect 3 ":1:1: .*'text': .*--json-keys" "$lm" --input <(echo '{"txt":"a"}') --output-prefix bad
expect 3 ":1:9: 'text' " "$lm" --input <(echo '{"text":5}') --output-prefix bad
python3 - <<'PY'
import gzip
data = bytearray(gzip.compress(open("a.jsonl", "rb").read(), 0))
at = data.index(b"the of")
data[at] = 0xFF
open("flipped.jsonl.gz", "wb").write(data)
line = b'{"text":"a\xff"}\n{"text":"b"}\n'
open("sound.jsonl.gz", "wb").write(gzip.compress(line))
PY
# If a compressed file is corrupt, the corruption is reported, not the bad line that it causes. A bad line of an intact file is
# reported.
for verb in "--output-prefix bad" "train-tokenizer --vocab-size 300 --output bad"; do
    # shellcheck disable=SC2086
    expect 3 ' flipped.jsonl.gz: .*byte [0-9]+' "$lm" $verb --input flipped.jsonl.gz
    # shellcheck disable=SC2086
    expect 3 ' sound.jsonl.gz:1:11: ' "$lm" $verb --input sound.jsonl.gz
done
printf '{"text":5}\n%.0s' {1..40} > many.jsonl
echo '{"text":"a"}' >> many.jsonl
expect 0 'warning: 30 .*skipped.* 10 ' "$lm" --input many.jsonl --output-prefix many --on-bad-line skip
[ "$(grep -c 'many.jsonl:.*: skipped' err)" = 10 ] || fail "$(cat err)"
expect 0 'warning: 30 .*skipped.* 10 ' "$lm" train-tokenizer --input many.jsonl --vocab-size 257 --output many --on-bad-line skip
expect 2 '--limit: .*1 byte' "$lm" train-tokenizer --input a.jsonl --vocab-size 300 --output bad --limit 0
expect 2 '--input: - ' "$lm" --input - - --output-prefix bad
printf '{"text":5}\n' > $'new\nline.jsonl'
expect 3 'new\\nline.jsonl:1:9: ' "$lm" --input $'new\nline.jsonl' --output-prefix bad
# An input that changes while it is read.
mkfifo slow
for change in 'truncate -s -5 moving.jsonl' 'echo >> moving.jsonl' 'touch -d 2020-01-01 moving.jsonl'; do
    for content in a.jsonl a.jsonl.gz; do
        cp $content moving.jsonl
        "$lm" --input slow moving.jsonl --output-prefix bad --quiet 2> err &
        pid=$!
        exec 9> slow
        while [ ! -e bad.unfinished/part-0000.journal ]; do sleep 0.01; done
        eval "$change"
        exec 9>&-
        got=0
        wait $pid || got=$?
        [ $got = 3 ] || fail "$change: exit $got: $(cat err)"
        grep -Eq ' moving.jsonl: .*(changed|byte [0-9]+)' err || fail "$change: $(cat err)"
    done
done
head -c 2000 a.jsonl.gz > cut.jsonl.gz
expect 3 ' cut.jsonl.gz: .*byte 2000' "$lm" --input cut.jsonl.gz --output-prefix bad
expect 2 ' one_text_document.bin: .*--force' "$lm" --input a.jsonl --output-prefix one
expect 2 ' --no-such-option: ' "$lm" --input a.jsonl --output-prefix bad --no-such-option
expect 2 '--input: ' "$lm" --output-prefix bad
expect 2 '--merge-file: ' "$lm" --input a.jsonl --output-prefix bad --vocab-file x
expect 2 '--output-prefix: .* no/such/dir ' "$lm" --input a.jsonl --output-prefix no/such/dir/x
expect 2 ' no/such/dir: .* no/such ' "$lm" train-tokenizer --input a.jsonl --vocab-size 300 --output no/such/dir
# Files with byte order marks and carriage returns.
sed 's/$/\r/' a.jsonl > crlf.jsonl
{ printf '\xEF\xBB\xBF'; cat crlf.jsonl; } > bom.jsonl
"$lm" --input bom.jsonl --output-prefix bom --append-eod --quiet
cmp bom_text_document.bin one_text_document.bin
tr '\n' '\r' < a.jsonl > cr.jsonl
expect 3 ' cr.jsonl:1:[0-9]+: .*carriage returns' "$lm" --input cr.jsonl --output-prefix bad
for form in UTF-16 UTF-16LE UTF-16BE; do
    iconv -f UTF-8 -t $form a.jsonl > utf16.jsonl
    expect 3 ' utf16.jsonl:1:1: .*UTF-16' "$lm" --input utf16.jsonl --output-prefix bad
done
# Megatron's progress lines at every N documents, and no others.
"$lm" --input a.jsonl --output-prefix lines --workers 2 --log-interval 700 2> err
[ "$(grep -o 'Processed [0-9]* documents (.* docs/s, .* MB/s)\.' err | cut -d' ' -f2 | xargs)" = "700 1400 2100 2800" ] ||
    fail "--log-interval: $(cat err)"
# On a terminal, each of these lines is a separate line, too.
script -qec "TERM=xterm lm-preprocess --input a.jsonl --output-prefix lines --force --workers 2 --log-interval 100" /dev/null > screen < /dev/null
python3 - <<'PY' || fail "a Processed line shares its line with the progress line"
import re
lines = [line.split("\r\x1b[K")[-1] for line in open("screen", newline="").read().split("\r\n")]
assert sum(line.startswith("Processed ") for line in lines) == 30, lines
assert not any(re.search(".Processed", line) for line in lines), lines
PY
# The default interval is Megatron's 1000 documents; lines that would follow too quickly are omitted.
"$lm" --input a.jsonl --output-prefix lines --force --workers 2 2> err
grep -Ec '^Processed [123]000 documents \(.* docs/s, .* MB/s\)\.$' err > n || fail "no progress: $(cat err)"
[ "$(grep -c Processed err)" = "$(cat n)" ] || fail "not at a thousand: $(cat err)"
"$lm" --input a.jsonl --output-prefix lines --force --quiet 2> err
[ ! -s err ] || fail "--quiet: $(cat err)"
share=$here/../../share/tokenizers/gpt2
head -c 300000 "$share/vocab.json" > cutvocab.json
expect 3 ' cutvocab.json: ' "$lm" --input a.jsonl --output-prefix bad --vocab-file cutvocab.json --merge-file "$share/merges.txt"
expect 0 'note: --dataset-impl: ' "$lm" --input a.jsonl --output-prefix mega --dataset-impl mmap --workers 2
nothing_under bad

# A signal ends the run by that signal, without leftovers; SIGHUP arrives when the terminal closes.
mkfifo pipe
for signal in TERM HUP; do
    env --default-signal=HUP "$lm" --input pipe --output-prefix stopped --quiet --workers 1 & # even if nohup started the test
    pid=$!
    exec 9> pipe
    yes '{"text":"some words"}' 2> /dev/null | head -c 3000000 >&9 || true
    kill -$signal $pid
    yes '{"text":"some words"}' 2> /dev/null | head -c 9000000 >&9 2> /dev/null || true
    exec 9>&-
    got=0
    wait $pid || got=$?
    [ $got = $((128 + $(kill -l $signal))) ] || fail "SIG$signal: exit $got"
    nothing_under stopped
done

# A killed run leaves its work directory and no file under a final name. The next run reports the work directory.
got=0
LM_IO_FAULT=kill:14 "$lm" --input a.jsonl --output-prefix killed --quiet 2> /dev/null || got=$?
[ $got = 137 ] || fail "kill: exit $got"
[ ! -e killed_text_document.idx ] || fail "a killed run left an .idx"
expect 2 ' killed.unfinished: .*--resume' "$lm" --input a.jsonl --output-prefix killed
expect 0 'note: killed.unfinished: .*removed' "$lm" --input a.jsonl --output-prefix killed --force

# A tokenizer.json over GPT-2's tables gives GPT-2's ids.
python3 - "$share" <<'PY'
import json, sys
vocab = json.load(open(sys.argv[1] + "/vocab.json"))
merges = open(sys.argv[1] + "/merges.txt").read().split("\n")[1:-1]
byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
json.dump({"version": "1.0", "added_tokens": [], "pre_tokenizer": byte_level,
           "model": {"type": "BPE", "vocab": vocab, "merges": merges}}, open("tokenizer.json", "w"))
PY
"$lm" --input a.jsonl --output-prefix plain --quiet
"$lm" --input a.jsonl --output-prefix hf --tokenizer-type HuggingFaceTokenizer --tokenizer-model tokenizer.json --quiet
cmp plain_text_document.bin hf_text_document.bin

# A corrupt dataset.
cp one_text_document.bin x.bin; cp one_text_document.idx x.idx; cp one_text_document.json x.json
truncate -s -2 x.bin
expect 1 '' "$lm" verify x; grep -q 'x.bin: .*truncated' out || fail "$(cat out)"
expect 3 'x.bin: .*truncated' "$lm" info x
cp one_text_document.bin x.bin
python3 - <<'PY'
idx = open("one_text_document.idx", "rb").read()
n = int.from_bytes(idx[18:26], "little")
at = 34 + 12 * n + 8 * 7  # the entry of document 7
open("x.idx", "wb").write(idx[:at] + (3).to_bytes(8, "little") + idx[at + 8:])
PY
expect 3 ' x.idx: .*entry 7: .*lm-preprocess verify' "$lm" info x
expect 1 '' "$lm" verify x; grep -q 'x.idx: .*entry 7' out || fail "$(cat out)"
expect 3 'x.idx: .*entry 7' "$lm" cat x
# cat checks every entry that it reads, and reads no others.
python3 - <<'PY'
import subprocess
idx = open("one_text_document.idx", "rb").read()
n = int.from_bytes(idx[18:26], "little")
def cat(at, size, value, *more):
    damaged = bytearray(idx)
    damaged[at:at + size] = value.to_bytes(size, "little", signed=True)
    open("x.idx", "wb").write(damaged)
    run = subprocess.run(["lm-preprocess", "cat", "x", *more], capture_output=True, text=True)
    return run.returncode, run.stdout.count("\n"), run.stderr
def entry(at, size):
    return int.from_bytes(idx[at:at + size], "little", signed=True)
length, pointer = 34 + 4 * 7, 34 + 4 * n + 8 * 7
for at, size, value, printed, fault in [
    (length, 4, -5, 7, "length -5 of sequence 7 "),
    (length, 4, 2**31 - 1, 7, "sequence 7 with 2147483647 tokens "),
    (length, 4, entry(length, 4) - 1, 7, "sequence 8 "),
    (length, 4, entry(length, 4) + 1, 7, "sequence 8 "),
    (pointer, 8, -2, 6, "pointer -2 of sequence 7 "),
    (pointer, 8, entry(pointer, 8) + 1, 6, "of sequence 7 "),
    (pointer, 8, entry(pointer, 8) + 4, 6, "sequence 7 begins"),
    (pointer, 8, entry(pointer, 8) - 4, 6, "sequence 7 begins"),
    (pointer, 8, 2**62, 6, "of sequence 7 ")]:
    code, lines, err = cat(at, size, value)
    assert code == 3 and lines == printed and err.startswith("lm-preprocess: x.idx: ") and fault in err, (value, code, lines, err)
    # Entries outside the range are not read.
    assert cat(at, size, value, "--documents", "100-102") == (0, 3, ""), value
PY
cp one_text_document.idx x.idx; printf '\001' | dd of=x.bin bs=1 seek=100 conv=notrunc status=none
expect 1 '' "$lm" verify x; grep -q 'x.bin: .*changed' out || fail "$(cat out)"

# A user's directory with the name of the work directory: nothing in it changes.
for precious in sub/data notes.txt part-00000.gz ranks/data lock/data; do
    rm -rf own.unfinished
    mkdir -p "own.unfinished/$(dirname $precious)"
    echo precious > own.unfinished/$precious
    for mode in "" --force --resume; do
        # shellcheck disable=SC2086
        expect 2 ' own.unfinished: .*(sub|notes.txt|part-00000.gz|ranks|lock), ' \
            "$lm" --input a.jsonl --output-prefix own $mode
        [ "$(find own.unfinished -type f)" = own.unfinished/$precious ] || fail "touched: $(find own.unfinished)"
    done
done
rm -r own.unfinished
mkdir own.unfinished # an empty one is used
"$lm" --input a.jsonl --output-prefix own --quiet
[ ! -e own.unfinished ] || fail "the work directory stayed"
# A file that a user adds to it during the run stays too.
got=0
LM_IO_FAULT=kill:14 "$lm" --input a.jsonl --output-prefix guest --quiet 2> /dev/null || got=$?
[ $got = 137 ] || fail "kill: exit $got"
echo precious > guest.unfinished/notes.txt
expect 0 'warning: guest.unfinished: .*notes.txt' "$lm" --input a.jsonl --output-prefix guest --resume
[ "$(ls guest.unfinished)" = notes.txt ] || fail "$(ls guest.unfinished)"
"$lm" verify guest_text_document > /dev/null
# Links that --force replaces; leftovers of the verbs that write.
mkdir disk
mv own_text_document.bin disk && ln -s disk/own_text_document.bin .
expect 0 'note: own_text_document.bin: .*link.* disk/own_text_document.bin' \
    "$lm" --input a.jsonl --output-prefix own --force
[ ! -L own_text_document.bin ] || fail "still a link"
got=0
LM_IO_FAULT=kill:6 "$lm" merge --output-prefix left --quiet one_text_document 2> /dev/null || got=$?
[ $got = 137 ] || fail "kill: exit $got"
expect 0 'note: left.idx.tmp[^:]*: ' "$lm" merge --output-prefix left one_text_document
got=0
LM_IO_FAULT=kill:5 "$lm" train-tokenizer --input a.jsonl --vocab-size 300 --output tok --quiet 2> /dev/null || got=$?
[ $got = 137 ] || fail "kill: exit $got"
expect 0 'note: tok.tmp.train-tokenizer: .*removed' \
    "$lm" train-tokenizer --input a.jsonl --vocab-size 300 --output tok
# A merge of datasets with and without end-of-document tokens prints a note.
expect 0 'note: --append-eod ' "$lm" merge --output-prefix mixed one_text_document own_text_document
"$lm" merge --output-prefix mixed --force none_text_document one_text_document --quiet 2> err
[ ! -s err ] || fail "$(cat err)"
# Keys with the names of files of the work directory.
sed 's/"text"/"part-0000.run"/; s/"title"/"run"/' a.jsonl > names.jsonl
"$lm" --input names.jsonl --output-prefix names --json-keys part-0000.run run --append-eod --quiet
cmp names_part-0000.run_document.bin one_text_document.bin
cmp names_run_document.bin keys_title_document.bin

# A fault at some of the operations on files: exit 3, at most 3 lines on stderr, and no .idx under the final name.
for k in 1 2 3 5 8 13 21; do
    got=0
    LM_IO_FAULT=fail:$k "$lm" --input a.jsonl --output-prefix fault --quiet 2> err || got=$?
    if [ $got != 0 ]; then
        [ $got = 3 ] || fail "fault $k: exit $got: $(cat err)"
        [ "$(wc -l < err)" -le 3 ] || fail "fault $k: $(cat err)"
        [ ! -e fault_text_document.idx ] || fail "fault $k left an .idx"
    fi
    rm -f fault_*
done
if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=64k tmpfs small 2> /dev/null; then
    expect 3 ' small/x[^:]*: .*No space' "$lm" --input a.jsonl --output-prefix small/x
    [ -z "$(ls small)" ] || fail "left on the full disk: $(ls small)"
    umount small
    # A file system without writes that bypass the page cache.
    mount -t ramfs ramfs small
    "$lm" --input a.jsonl --output-prefix small/x --append-eod --quiet
    cmp small/x_text_document.bin one_text_document.bin
    umount small
else
    echo "not root: only LM_IO_FAULT simulates a full disk"
fi
# A write beyond the limit on the size of files is an error, as on a full disk.
expect 3 ' limited.unfinished/[^:]*: .*File too large' \
    bash -c "ulimit -f 8; exec '$lm' --input a.jsonl --output-prefix limited --quiet"
# Too little memory for the caches of sixteen workers, which are largest for an input of unknown size.
expect 3 'out of memory' bash -c "ulimit -v 500000; cat a.jsonl | '$lm' --input - --output-prefix limited --workers 16 --quiet"
nothing_under limited
expect 2 ' nosuch: ' "$lm" verify nosuch
# Arguments that are not a name, a tokenizer or a readable file.
mkdir somewhere
expect 2 "--output-prefix: 'somewhere/' " "$lm" --input a.jsonl --output-prefix somewhere/
expect 2 "--output-prefix: 'one_text_document' .*input" "$lm" merge ./one_text_document --output-prefix one_text_document --force
expect 2 ' gpt2: ' "$lm" --input a.jsonl --output-prefix bad --tokenizer-model gpt2
ln -s nowhere somewhere/gone
expect 3 ' somewhere/gone: .*link' "$lm" --input somewhere --output-prefix bad
expect 2 ' hf_text_document.*: .*--tokenizer-model.*--ids' "$lm" cat hf_text_document
"$lm" cat hf_text_document --tokenizer-model tokenizer.json --documents 0 > /dev/null
if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null; then
    chmod 755 . && chmod 000 x.bin
    expect 3 '/x.bin: .*Permission denied' \
        setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all "$lm" verify "$PWD/x"
    chmod 644 x.bin
fi
nothing_under bad
expect 2 "--shard: '1/0'" "$lm" --input a.jsonl --output-prefix shards --shard 1/0
# Each file of a directory is read or listed as skipped.
mkdir -p top real && cp a.jsonl real && ln -s ../real top/link && mkfifo top/fifo && cp a.jsonl top
"$lm" --input top --output-prefix top --quiet 2> err
for name in link fifo; do grep -q "note: top/$name: " err || fail "no note of top/$name: $(cat err)"; done
# The directory of the text also has outputs of an earlier run and of an unfinished one.
mkdir beside && cp a.jsonl beside && cd beside
gzip -c a.jsonl > b.jsonl.gz
echo 'About this corpus' > README.md
got=0
LM_IO_FAULT=kill:14 "$lm" --input a.jsonl --output-prefix killed --quiet 2> /dev/null || got=$?
[ $got = 137 ] || fail "kill: exit $got"
for round in 1 2; do
    "$lm" --input . --output-prefix out$round --append-eod --quiet 2> ../err
    grep -q 'note: ./README.md: skipped' ../err || fail "$(cat ../err)"
    grep -Eq 'note: ./killed.unfinished: skipped(, with 3 more .*)?: ' ../err || fail "$(cat ../err)"
    [ "$(wc -l < ../err)" = 2 ] || fail "$(cat ../err)"
done
cmp out1_text_document.bin out2_text_document.bin
[ "$(stat -c %s out1_text_document.bin)" = $((2 * $(stat -c %s ../one_text_document.bin))) ] || fail "not the two files"
mkdir none && cp out1_text_document.* none
expect 2 "^lm-preprocess: none: .* 3 files" "$lm" --input none --output-prefix bad
expect 3 ' README.md:1:1: ' "$lm" --input README.md --output-prefix bad
cd ..
echo ok
