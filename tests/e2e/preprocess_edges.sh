#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-preprocess where little is allowed: too few processes for its threads, names that are not UTF-8.
here=$(realpath "$(dirname "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
lm=$bin/lm-preprocess
make_corpus a.jsonl 20000
gzip -k a.jsonl

# As a user with 20 processes at most; limits on them do not bind root.
poor() { (ulimit -u 20 && exec setpriv --reuid=65534 --clear-groups "$@"); }
chmod 777 "$work"
if [ "$(id -u)" = 0 ] && poor test -x "$lm" 2> /dev/null && poor test -w "$work" && poor "$lm" --version > /dev/null; then
    refused="a thread: cannot be made: .*ulimit -u .*--workers"
    for input in a.jsonl a.jsonl.gz; do
        expect 3 "$refused" poor "$lm" --input $input --output-prefix poor --workers 64 --tokenizer-type ByteTokenizer
        nothing_under poor
    done
    expect 3 "$refused" poor "$lm" train-tokenizer --input a.jsonl --vocab-size 300 --output poor --workers 64
    nothing_under poor
    expect 0 '' poor "$lm" --input a.jsonl --output-prefix poor --workers 4 --tokenizer-type ByteTokenizer
else
    echo "skipped: limits on processes: not as root, or without setpriv"
fi

# File names may hold any bytes; in JSON the wrong ones are U+FFFD.
odd=$'name\xff'
mkdir "$odd"
cp a.jsonl "$odd/in.jsonl"
prefix=$odd/out
expect 0 '' "$lm" --input "$odd/in.jsonl" --output-prefix "$prefix" --json --tokenizer-type ByteTokenizer --resume
python3 -c 'import json; assert json.load(open("out"))["prefixes"] == ["name\ufffd/out_text_document"]'
expect 0 'complete' "$lm" --input "$odd/in.jsonl" --output-prefix "$prefix" --tokenizer-type ByteTokenizer --resume
for verb in info verify; do
    expect 0 '' "$lm" $verb "${prefix}_text_document" --json
    python3 -c 'import json; assert json.load(open("out"))["prefix"] == "name\ufffd/out_text_document"'
done
got=0
LM_IO_FAULT=kill:14 "$lm" --input "$odd/in.jsonl" --output-prefix "$odd/killed" --tokenizer-type ByteTokenizer --quiet 2> err || got=$?
[ $got = 137 ] || fail "kill: exit $got: $(cat err)"
expect 0 '' "$lm" --input "$odd/in.jsonl" --output-prefix "$odd/killed" --tokenizer-type ByteTokenizer --resume
cmp "${prefix}_text_document.bin" "$odd/killed_text_document.bin"
expect 0 '' "$lm" train-tokenizer --input "$odd/in.jsonl" --vocab-size 300 --output "$odd/tokenizer" --json
expect 0 '' "$lm" --input "$odd/in.jsonl" --output-prefix "$odd/hf" --tokenizer-model "$odd/tokenizer"
expect 0 '' "$lm" merge --output-prefix "$odd/merged" "${prefix}_text_document" "$odd/killed_text_document"

# What goes into JSON as it is must be text.
expect 2 'is not valid UTF-8' "$lm" train-tokenizer --input a.jsonl --vocab-size 300 --special-tokens $'\xff' --output bad
expect 2 'is not valid UTF-8: no line has it' "$lm" --input a.jsonl --output-prefix bad --json-keys $'te\xffxt'
nothing_under bad

# Half a character in a member that nobody asked for; a format from before xz.
printf '{"o":"\\ud800","text":"one"}\n{"text":"\\udc00","text":"two"}\n' > halves.jsonl
"$lm" --input halves.jsonl --output-prefix halves --quiet
[ "$("$lm" cat halves_text_document)" = $'{"text":"one"}\n{"text":"two"}' ] || fail "halves: $("$lm" cat halves_text_document)"
xz --format=lzma -k a.jsonl
expect 0 '' "$lm" --input a.jsonl.lzma --output-prefix old --tokenizer-type ByteTokenizer --workers 3
cmp old_text_document.bin "${prefix}_text_document.bin"
