#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-ckpt copy: verified while copying, atomic, continued after a kill; the copy resumes a training.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

args=(--mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 24 --vocab-size 300
    --micro-batch-size 2 --global-batch-size 2 --train-iters 6 --lr 1e-3 --threads 1 --eval-iters 0 --log-interval 6)
lm-train "${args[@]}" --bf16 --save c --save-interval 3 >/dev/null 2>&1

# A directory of steps as SRC means its latest step; DST and its `latest` are created.
expect 0 '' lm-ckpt copy c store/run
grep -Eq '^store/run/global_step6: [0-9.]+ KiB copied and verified in ' out || fail "copy: $(cat out)"
diff -r c/global_step6 store/run/global_step6 || fail "copy: not the same"
[ "$(head -n1 store/run/latest)" = global_step6 ] || fail "latest: $(head -n1 store/run/latest)"
expect 0 '' lm-ckpt copy c/global_step3 store/run/ --bwlimit 200MiB
[ "$(head -n1 store/run/latest)" = global_step6 ] || fail "an older step became latest"
expect 0 '' lm-ckpt verify store/run --quiet
expect 0 '' lm-ckpt copy c store/run
grep -q '^store/run/global_step6: .*same manifest' out || fail "copy again: $(cat out)"

# Several steps in one call; a copy that is refused leaves no directory.
expect 0 '' lm-ckpt copy c/global_step3 c/global_step6 several --json
[ "$(jq -r .path out)" = "several/global_step3
several/global_step6" ] || fail "copy: $(cat out)"
[ "$(head -n1 several/latest)" = global_step6 ] || fail "latest: $(cat several/latest)"
expect 2 '--bwlimit: ' lm-ckpt copy c refused/run --bwlimit 0
[ ! -e refused ] || fail "a refused copy left a directory"

# A run resumed from the copy equals the run.
lm-train "${args[@]}" --bf16 --load store/run/global_step3 --save again >/dev/null 2>&1
expect 0 '' lm-ckpt diff c again

# A copy with --weights-only is complete, and a training starts from it with --finetune.
expect 0 '' lm-ckpt copy c w --weights-only
expect 0 '' lm-ckpt verify w --quiet
expect 0 '' lm-ckpt ls w
grep -q 'complete, weights only, latest' out || fail "ls: $(cat out)"
[ -z "$(find w -name 'optim*')" ] || fail "--weights-only copied $(find w -name 'optim*')"
expect 0 '' lm-ckpt diff c w --weights-only
expect 2 ' w/global_step6: .*--finetune' lm-train "${args[@]}" --bf16 --load w
expect 0 '' lm-train "${args[@]}" --bf16 --load w --finetune
# DST already has a different step with the name of the step of SRC.
expect 2 '^lm-ckpt: w/global_step6: .*--force' lm-ckpt copy c w
expect 0 '' lm-ckpt copy c w/global_step6 --force
diff -r c/global_step6 w/global_step6 || fail "copy --force: not the same"
[ "$(ls w)" = "$(printf 'global_step6\nlatest')" ] || fail "left behind: $(ls w)"

# A full disk: a clear error, and the same command continues.
expect 3 ' full/.*: No space left on device' env LM_IO_FAULT=short:8 lm-ckpt copy c full
grep -q '^lm-ckpt: note: full/global_step6.tmp.copy: ' err || fail "full: $(cat err)"
[ ! -e full/global_step6 ] || fail "a copy that failed has a name"
expect 2 ' full: ' lm-ckpt ls full
expect 0 '' lm-ckpt copy c full
grep -q 'copied before' out || fail "resumed: $(cat out)"
# After a kill, the same command continues.
code=0
(LM_IO_FAULT=kill:11 lm-ckpt copy c killed >/dev/null 2>&1) || code=$?
[ $code = 137 ] || fail "kill: exit $code"
[ ! -e killed/global_step6 ] || fail "a copy that was killed has a name"
expect 0 '' lm-ckpt copy c killed
grep -q 'copied before' out || fail "resumed: $(cat out)"
diff -r c/global_step6 killed/global_step6 || fail "resumed: not the same"
nothing_under '*.tmp.'

# A corrupt source ends the copy, which gets no final name.
cp -r c d
flip d/global_step6/optim-00000.safetensors
expect 3 ' d/global_step6/optim-00000.safetensors: tensor .*checksum' lm-ckpt copy d/global_step6 damaged
[ ! -e damaged ] || fail "a copy that nothing can complete stays: $(ls damaged)"
[ ! -e damaged/global_step6 ] || fail "a damaged copy has a name"

# Usage errors.
expect 2 ' nowhere: ' lm-ckpt copy nowhere x
expect 2 ' x/global_step7: .*global_step6\)' lm-ckpt copy c x/global_step7
expect 2 '--bwlimit: .*1, got 0' lm-ckpt copy c x --bwlimit 0
expect 0 '' lm-ckpt copy c c
expect 2 ' c/global_step6: ' lm-ckpt copy c/global_step6 c/global_step6 --weights-only
expect 2 ' c/latest: ' lm-ckpt copy c c/latest
echo "lm-ckpt copy: all as promised"
