#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-convert on checkpoints that DeepSpeed wrote in its pipeline with ZeRO stage 1 (tests/golden/deepspeed): weights, masters
# and moments have the bits that DeepSpeed had in memory, also from the universal form. The next losses are DeepSpeed's.
# timeout: 120
here=$(realpath "$(dirname "$0")")
golden=$(realpath "$here/../golden/deepspeed")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/next_losses.bash
. "$here/next_losses.bash"

for archive in "$golden"/*.tar.xz; do tar xJf "$archive"; done

# same_as_in_memory RUN IMPORTED: compares all tensors with the numbers in RUN-state-*.json, in hexadecimal.
same_as_in_memory() {
    python3 - "$@" <<'END' || fail "$2: other numbers than DeepSpeed had"
import glob, json, struct, sys
wanted, got = {}, {}
for path in glob.glob(sys.argv[1] + "-state-*.json"):
    wanted.update(json.load(open(path)))
for path in glob.glob(sys.argv[2] + "/global_step3/*.safetensors"):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    for name, entry in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + n + begin:8 + n + end]
        if entry["dtype"] == "BF16":
            raw = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
        if entry["dtype"] == "F16":
            raw = struct.pack(f"<{len(raw) // 2}f", *struct.unpack(f"<{len(raw) // 2}e", raw))
        got[name] = raw
assert set(wanted) == set(got), sorted(set(wanted) ^ set(got))
# DeepSpeed has more rows: the padding of the vocabulary.
differ = [name for name, digits in wanted.items() if bytes.fromhex(digits)[:len(got[name])] != got[name]]
assert not differ, differ
END
}

for run in bf16 fp16 fp32; do
    for form in "$run" "$run/global_step3_universal"; do
        expect 0 '' lm-convert "$form" imported --quiet
        same_as_in_memory "$run" imported
        [ "$(jq -c '[.counters.iteration, .counters.optimizer_step, .counters.consumed_samples]' \
            imported/global_step3/manifest.json)" = '[3,3,18]' ] || fail "$form: $(jq -c .counters imported/global_step3/manifest.json)"
        scale=null
        [ "$run" != fp16 ] || scale='{"hysteresis_left":2,"scale":2048,"steps_since_overflow":1}'
        [ "$(jq -cS .state.loss_scale imported/global_step3/manifest.json)" = "$scale" ] ||
            fail "$form: loss scale $(jq -c .state imported/global_step3/manifest.json)"
        rm -r imported
    done
    prints 'ok: [0-9]+ tensors' lm-ckpt verify "$run/global_step3_universal" --quiet
    # Exports keep the loss scale.
    lm-convert "$run" native --quiet
    for target in megatron-deepspeed "megatron-lm --transformer-impl local"; do
        # shellcheck disable=SC2086
        expect 0 '' lm-convert native exported --to $target --quiet
        expect 0 '' lm-convert exported again --quiet
        [ "$(jq -cS .state.loss_scale again/global_step3/manifest.json)" = "$scale" ] ||
            fail "$run to $target: loss scale $(jq -c .state again/global_step3/manifest.json)"
        rm -r exported again
    done
    rm -r native
    # DeepSpeed sums the gradients of three replicas in another order on each stage, so the tied word embeddings drift apart.
    expect 1 '' lm-ckpt verify "$run/global_step3" --quiet
    ! grep -v 'embedding.word.weight .*: .*copies\|: bad: [23] problems' out ||
        fail "verify $run: $(cat out)"
    prints 'equal: [0-9]+ tensors, bit for bit' lm-ckpt diff "$run" "$run/global_step3_universal"
done
expect 0 'note: --check: perplexity' lm-convert bf16 checked --check
prints '^ *3 .*tp1 pp2 *deepspeed *complete, latest' lm-ckpt ls fp16

# DeepSpeed's softmax includes the padding of the vocabulary, so the padding is imported too. DeepSpeed clips gradients to a norm
# of 1.
expect 0 '' lm-convert fp32 padded --vocab-size 32 --quiet
next_losses_equal fp32-next.json padded --num-layers 2 --hidden-size 8 --num-attention-heads 2 --ffn-hidden-size 12 \
    --train-iters 6 --clip-grad 1

# The file of one data-parallel rank is missing.
rm fp16/global_step3/zero_pp_rank_2_mp_rank_01_optim_states.pt
expect 3 ' fp16[^:]*: .*3 data-parallel ranks.* 2' lm-convert fp16 x
nothing_under x
# All files of a stage are missing: the tensors of the stage have no moments.
rm bf16/global_step3/*_mp_rank_01_optim_states.pt
expect 3 'tensor [a-z0-9_.]+ [(](exp_avg|master)[)] .*0 of [0-9]+ elements' lm-convert bf16 x
nothing_under x
prints '^ *3 .* incomplete: .*tensor .* 0 of' lm-ckpt ls bf16
[ "$(lm-ckpt ls bf16 --json | jq -cs '.[0] | [.complete, .latest]')" = '[false,true]' ] || fail "ls --json: $(lm-ckpt ls bf16 --json)"
