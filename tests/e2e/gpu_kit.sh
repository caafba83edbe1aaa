#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The archive of `--target gpu_kit` runs its stages where it was unpacked, without the build and the source tree, with an
# empty environment; on the emulated GPU.
# timeout: 600
build=$(realpath "$1")
root=$(realpath "$(dirname "$0")/../..")
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"
for file in lib/liblm_cuda.so tests/emulated_cuda/liblm_cuda.so bench/bench_device_ops; do
    [ -e "$build/$file" ] || {
        echo "skipped: this build has no $file"
        exit 77
    }
done

"$root/tools/bundle.py" "$build" gpu_kit >made
archive=$(sed -E 's/: [0-9]+ MiB$//' made)
[ "$(du -m "$archive" | cut -f1)" -lt 50 ] || fail "too large to carry: $(cat made)"
tar -xzf "$archive"
kit=$work/$(basename "$archive" .tar.gz)
cp -r "$build/tests/emulated_cuda" "$kit/tests/"
mkdir nothing

# alone COMMAND...: where build and sources are not to be seen, if there is the right to hide them.
# shellcheck disable=SC2016
hide=(unshare --mount sh -c 'mount --bind "$0" "$1" && mount --bind "$0" "$2" && shift 2 && exec "$@"' "$work/nothing"
    "$build" "$root")
if ! "${hide[@]}" true 2>/dev/null; then
    echo "build and sources cannot be hidden here"
    hide=()
fi
alone() { "${hide[@]}" env -i PATH=/usr/bin:/bin HOME="$work" "$@"; }
emulated=(LM_PLUGIN_DIR="$kit/tests/emulated_cuda")

run verdicts alone "${emulated[@]}" "$kit/tests/gpu.sh" --log "$work/gpu.log" smoke fault memory racecheck
for stage in smoke fault memory; do
    grep -Eq "^$stage +PASSED in [0-9]+ s: " verdicts || fail "$(cat verdicts gpu.log)"
done
grep -Eq "^racecheck +skipped in " verdicts || fail "a sanitizer: $(cat verdicts)"
grep -q "^memory    PASSED .*: memory: .* of the GPU in use, " verdicts || fail "$(cat verdicts)"

# Without a GPU: skipped, and why. A stage that fails ends as a failure, and the others come to their turn.
run none alone "$kit/tests/gpu.sh" --log "$work/none.log" ops fault
grep -Eq "^ops +skipped in .*: skipped: cuda: " none || fail "$(cat none)"
expect 1 "" alone "${emulated[@]}" EMULATED_CUDA_MEMORY=1 "$kit/tests/gpu.sh" --log "$work/full.log" smoke fault
[[ $(grep -c -E "^(smoke|fault) +FAILED \([0-9]+\)" out) -ge 1 && $(grep -cE "^fault " out) = 1 ]] || fail "$(cat out)"
run late alone "${emulated[@]}" "$kit/tests/gpu.sh" --within 100 train smoke
grep -q "^left out for lack of time: train$" late || fail "$(cat late)"
expect 2 "no stage 'x'" alone "$kit/tests/gpu.sh" x

# Figures, of shapes that an emulator can do.
run ops.json alone "${emulated[@]}" "$kit/bench/bench_device_ops" llama-1b 4096 norm
grep -q '"op": "residual_norm_forward", "ms": ' ops.json || fail "$(cat ops.json)"
python3=$(command -v python3)
run measured alone "$python3" "$kit/bench/gpu.py" --scale 64 --device cpu --results "$work/results" train-gpt2-124m \
    train-llama-1b
run table alone "$python3" "$kit/bench/gpu.py" --results "$work/results" table
for model in gpt2-124m llama-1b; do
    grep -Eq "^\| $model \| lm-train, flash \| [0-9]+ \|" table || fail "no $model: $(cat table results)"
done
echo "$(sed 's/.*: //' made) that test a GPU where nothing can be built"
