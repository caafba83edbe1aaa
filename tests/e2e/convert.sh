#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-convert on checkpoints of lm-train: to Hugging Face and back bit for bit, and training continues.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

make_corpus corpus.jsonl 100
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
model=(--num-layers 2 --hidden-size 24 --num-attention-heads 3 --seq-length 24)
args=(--micro-batch-size 2 --global-batch-size 2 --train-iters 4 --lr 1e-3 --data-path data_text_document --threads 1
    --eval-interval 100 --eval-iters 1 --log-interval 1)
lm-train "${model[@]}" "${args[@]}" --save c >/dev/null 2>&1

expect 0 'note: hf: .*--tokenizer' lm-convert c hf --to hf-gpt2
[ "$(jq -c '[.vocab_size, .n_layer, .n_positions, .eos_token_id, .activation_function]' hf/config.json)" = \
    '[257,2,24,256,"gelu_new"]' ] || fail "config.json: $(cat hf/config.json)"
expect 0 '' lm-convert hf back --to native --quiet
expect 0 '' lm-ckpt diff c back --weights-only
expect 0 '' lm-ckpt verify back --quiet
expect 0 'note: --check: logits .* 24 tokens' lm-convert c checked --to hf-gpt2 --check
grep -Eq "perplexity [0-9.]+ [^;]* [0-9.]+ .*--check-python" err ||
    fail "the two programs of the perplexities: $(cat err)"
expect 0 'note: --check: logits' lm-convert hf/model.safetensors checked2 --to native --check
expect 0 '' lm-convert c shards --to hf-gpt2 --max-shard-size 30kB --quiet
[ "$(find shards -name 'model-*.safetensors' | wc -l)" -gt 2 ] || fail "shards: $(ls shards)"
expect 0 '' lm-convert shards back2 --to native --quiet
expect 0 '' lm-ckpt diff c back2 --weights-only
expect 0 '' lm-convert c half --to hf-gpt2 --dtype bf16 --quiet
[ "$(jq -r .torch_dtype half/config.json)" = bfloat16 ] || fail "--dtype"
expect 0 'note: --check: logits' lm-convert c half --to hf-gpt2 --dtype bf16 --check --force

# Training starts from a converted model, which has only weights.
for dry in "" --dry-run; do
    expect 2 'back(/global_step[0-9]+)?: --load: .*--finetune .*--no-load-optim' \
        lm-train "${model[@]}" "${args[@]}" --load back ${dry:+"$dry"}
done
lm-train "${model[@]}" "${args[@]}" --load back --finetune --save tuned >tuned.log 2>tuned.err ||
    fail "training from a converted model: $(cat tuned.err)"

# Several inputs: each in a directory of its name, and a second call skips what the first one wrote.
lm-train "${model[@]}" "${args[@]}" --save many --save-interval 2 >/dev/null 2>&1
expect 0 '' lm-convert many/global_step* --output-dir several --quiet
[ "$(ls several)" = $'global_step2\nglobal_step4' ] || fail "--output-dir: $(ls several)"
rm -r several/global_step4
expect 0 'note: several/global_step2: ' lm-convert many/global_step* --output-dir several/
rm -r several/global_step4
expect 0 '' lm-convert many/global_step* --output-dir several --json --check
[ "$(jq -c '[.in, .out, .to, .action, ((.tensors // 0) > 0), (.checks // [])[0].kind]' out | tr '\n' ' ')" = \
    '["many/global_step2","several/global_step2","hf-gpt2","skipped",false,null] ["many/global_step4","several/global_step4","hf-gpt2","converted",true,"logits"] ' ] ||
    fail "--json: $(cat out)"
[ -f several/global_step4/config.json ] || fail "--output-dir: the missing output was not written"

# Killed in the second input: the first output is complete, the second has no final name, and the next call removes
# its temporary directory. An output that is not complete is not skipped.
rm -r several/global_step4
LM_IO_FAULT=kill:4 expect 137 '' lm-convert many/global_step* --output-dir several --quiet
[ "$(find several -maxdepth 1 -name 'global_step4*')" != several/global_step4 ] || fail "a killed conversion has its final name"
expect 0 'note: several/global_step2: ' lm-convert many/global_step* --output-dir several
[ "$(ls several)" = $'global_step2\nglobal_step4' ] || fail "after a kill: $(ls several)"
truncate -s -8 several/global_step4/model.safetensors
mv several/global_step4/config.json config.json
expect 2 ' several/global_step4: .*config.json' lm-convert many/global_step* --output-dir several/
mv config.json several/global_step4
expect 3 ' several/global_step4/model.safetensors: .*truncated' lm-convert many/global_step* --output-dir several
expect 2 ' several/global_step2: .*hf-gpt2, .*megatron-lm' \
    lm-convert many/global_step* --to megatron-lm --output-dir several

# Usage errors.
expect 2 ' x: .*--output-dir' lm-convert c hf x
expect 2 ' hf: .*--force' lm-convert c hf --to hf-gpt2
expect 0 '' lm-convert c hf --to hf-gpt2 --force --quiet
expect 0 '' lm-convert c lm-out --to megatron-lm --quiet
expect 0 '' lm-convert c lm-out --to megatron-lm --force --quiet
mkdir home; echo x >home/thesis
expect 2 ' home: ' lm-convert c home --to hf-gpt2 --force
[ -f home/thesis ] || fail "--force removed a directory that is no model"
expect 2 ' c: .*native' lm-convert c x --to native
expect 0 'note: --to .*hf-gpt2' lm-convert c default
expect 0 '' lm-convert default default-back --quiet
expect 0 '' lm-ckpt diff c default-back --weights-only
expect 2 '--position-embedding-type: .*--to hf-gpt2' lm-convert c x --to hf-llama
expect 2 ' OUT: .*missing' lm-convert c
expect 0 'note: --check: logits' lm-convert hf --check --against c

# lm-ckpt reads Megatron's directories without a conversion, and checks the other steps after a damaged one.
expect 0 '' lm-convert many/global_step2 foreign --to megatron-lm --pipeline-model-parallel-size 2 --quiet
expect 0 '' lm-convert many/global_step4 foreign4 --to megatron-lm --pipeline-model-parallel-size 2 --quiet
mv foreign4/iter_0000004 foreign/
prints 'equal: ' lm-ckpt diff many/global_step4 foreign/iter_0000004
expect 1 '' lm-ckpt diff foreign/iter_0000004 many/global_step2
expect 0 '' lm-ckpt unshard many/global_step4 ours.safetensors --quiet
expect 0 '' lm-ckpt unshard foreign/iter_0000004 theirs.safetensors --quiet
cmp <(tail -c 8000 ours.safetensors) <(tail -c 8000 theirs.safetensors) || fail "unshard of a Megatron directory"
prints 'iter_0000004: ok' lm-ckpt verify foreign
expect 0 'note: --check: perplexity .* 24 tokens' lm-convert foreign foreign-back --check
truncate -s -100 foreign/iter_0000002/mp_rank_00_001/model_optim_rng.pt
prints '2 .* incomplete: .*iter_0000002/.* [(]latest[)]' lm-ckpt ls foreign
prints '4 .* complete' lm-ckpt ls foreign
expect 1 '' lm-ckpt verify foreign
grep -q 'iter_0000004: ok' out || fail "verify after a damaged step: $(cat out)"
# The last stage's copy of the tied word embeddings must equal the first stage's.
expect 0 '' lm-convert back tied --to megatron-lm --pipeline-model-parallel-size 2 --quiet
prints 'ok' lm-ckpt verify tied
python3 - tied/iter_0000000/mp_rank_00_001/model_optim_rng.pt <<'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    entries = {name: archive.read(name) for name in archive.namelist()}
last = max((name for name in entries if "/data/" in name), key=lambda name: int(name.rsplit("/", 1)[1]))
entries[last] = bytes([entries[last][0] ^ 1]) + entries[last][1:]
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    for name, data in entries.items():
        archive.writestr(name, data)
END
expect 1 '' lm-ckpt verify tied
grep -q 'embedding.word.weight (weight): .*copies' out || fail "tied embeddings: $(cat out)"
lm-train "${model[@]}" "${args[@]}" --seed 7 --save other >/dev/null 2>&1
expect 1 '--check: .*logits .* hf ' lm-convert hf --check --against other
expect 2 '--against: .*--check' lm-convert hf --against c
# The rounding to 16 bits does not hide a wrong activation function, because both models have the same weights.
lm-train "${model[@]}" "${args[@]}" --bf16 --lr 1e-2 --init-method-std 0.2 --attention-dropout 0 --hidden-dropout 0 \
    --save rounded >/dev/null 2>&1
for flags in "" "--dtype bf16" "--dtype fp16" "--dtype fp32"; do
    # shellcheck disable=SC2086
    expect 0 'note: --check: logits .* [0-9.]+e-0[6-9] \(' lm-convert rounded rounded-hf --check $flags
    sed -i 's/gelu_new/gelu/' rounded-hf/config.json
    expect 1 ' activation_function .*"gelu".* "gelu_new"' lm-convert rounded-hf --check --against rounded
    rm -r rounded-hf
done
# Another program may have written the weights, without the masters, in fp32.
lm-convert rounded rounded-hf --quiet && lm-convert rounded-hf as-fp32 --quiet && lm-convert as-fp32 fp32-hf --to hf-gpt2 --quiet
expect 0 'note: --check: logits .* [0-9.]+e-0[6-9] \(' lm-convert fp32-hf --check --against rounded

# Options that a conversion does not use are refused by name, and nothing is written.
for option in "--transformer-impl local" "--make-vocab-size-divisible-by 8" "--tensor-model-parallel-size 2" "--pipeline-model-parallel-size 1" "--vocab-size 257"; do
    # shellcheck disable=SC2086
    expect 2 "${option% *}: " lm-convert c x --to hf-gpt2 $option
    # shellcheck disable=SC2086
    expect 2 "${option% *}: " lm-convert hf x $option
done
for option in "--format bin" "--max-shard-size 1MB" "--tokenizer hf"; do
    # shellcheck disable=SC2086
    expect 2 "${option% *}: .*--to native" lm-convert hf x $option
    # shellcheck disable=SC2086
    expect 2 "${option% *}: .*--to megatron-lm" lm-convert c x --to megatron-lm $option
done
for target in megatron-lm megatron-deepspeed; do
    expect 0 'note: --check: [0-9]+ tensors ' lm-convert c read-again --to "$target" --check \
        --pipeline-model-parallel-size 2
    rm -r read-again
    expect 2 '--check: .*--dtype' lm-convert c x --to "$target" --check --dtype bf16
done
expect 2 '--vocab-size: .*IN ' lm-convert c x --to megatron-lm --vocab-size 257
expect 2 '--dtype: .*IN ' lm-convert foreign x --dtype fp32
for option in "--to hf-gpt2" "--dtype bf16" "--output-dir x" --force; do
    # shellcheck disable=SC2086
    expect 2 "${option% *}: " lm-convert hf --check --against c $option
done
mkdir -p one two; cp -r c one/run; cp -r c two/run
expect 2 ' two/run/: .*one/run' lm-convert one/run two/run/ --output-dir x
expect 2 ' one/..: ' lm-convert one/.. --output-dir x
expect 2 ' nowhere: ' lm-convert c nowhere --output-dir x
expect 2 '^lm-convert: IN: .*empty' lm-convert '' x
expect 2 '^lm-convert: OUT: .*empty' lm-convert c ''
expect 2 '--output-dir: .*empty' lm-convert c --output-dir ''
expect 2 ' big/model: .*Hugging Face hub' lm-convert big/model x
expect 2 ' x/sub: .* x ' lm-convert c x/sub --to hf-gpt2
nothing_under x
expect 2 ' nowhere: ' lm-convert nowhere x --to hf-gpt2
mkdir bert; echo '{"model_type": "bert"}' >bert/config.json
expect 2 " bert/config.json: .*model_type 'gpt2', .* 'bert'" lm-convert bert x --to native
cp -r hf bare; rm bare/model.safetensors
expect 2 ' bare: .*model.safetensors' lm-convert bare x --to native
cp -r hf cut; truncate -s -10 cut/model.safetensors
expect 3 ' cut/model.safetensors: .*truncated' lm-convert cut x --to native
LM_IO_FAULT=fail:7 expect 3 ' x[^:]*: ' lm-convert c x --to hf-gpt2
nothing_under x
echo "lm-convert: all as promised"
