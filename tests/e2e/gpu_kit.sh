#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The archive of `--target gpu_kit` runs its stages after unpacking, without the build and the source tree, with an
# empty environment, on the emulated GPU.
# timeout: 600
# lock: install_manifest
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
archive=$(sed -E 's/: [0-9]+ MiB, needs glibc [0-9.]+$//' made)
[ "$(du -m "$archive" | cut -f1)" -lt 50 ] || fail "too large to carry: $(cat made)"
tar -xzf "$archive"
kit=$work/$(basename "$archive" .tar.gz)
if [ -e "$build/lib/liblm_cudnn.so" ]; then
    [ -n "$(find "$kit" -name liblm_cudnn.so)" ] || fail "without the cuDNN plugin of the build: $(find "$kit" -name '*.so')"
fi
cp -r "$build/tests/emulated_cuda" "$kit/tests/"
mkdir nothing

# alone COMMAND...: runs it with build and sources hidden, if the user may hide them.
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
grep -q "^memory    PASSED .*: memory: .* by the driver, .* by the plan, difference " verdicts || fail "$(cat verdicts)"

# Without a GPU: skipped, with the reason. A failing stage is a failure, and the other stages still run.
run none alone "$kit/tests/gpu.sh" --log "$work/none.log"
[ "$(grep -Ec "^[a-z]+ +skipped in .*: skipped: cuda: " none)" = 12 ] || fail "$(cat none)"
expect 1 "" alone "${emulated[@]}" EMULATED_CUDA_MEMORY=1 "$kit/tests/gpu.sh" --log "$work/full.log" smoke fault
[[ $(grep -c -E "^(smoke|fault) +FAILED \([0-9]+\)" out) -ge 1 && $(grep -cE "^fault " out) = 1 ]] || fail "$(cat out)"
# A stage that would not end in time is omitted, and the exit code reports it.
expect 3 "" alone "${emulated[@]}" "$kit/tests/gpu.sh" --log "$work/late.log" --within 90 smoke smoke smoke
grep -q "^omitted for lack of time: .*smoke$" out || fail "$(cat out)"
expect 2 "'train' .*570 s" alone "$kit/tests/gpu.sh" --within 100 train smoke
expect 2 "stage 'x'" alone "$kit/tests/gpu.sh" x

# Benchmarks, in shapes for an emulator.
for model in gpt2-124m:32 llama-1b:29; do # and the number of operations
    run ops.json alone "${emulated[@]}" "$kit/bench/bench_device_ops" ${model%:*} 4096
    [ "$(grep -c '"op": ".*", "ms": ' ops.json)" = ${model#*:} ] || fail "$model: $(cat ops.json)"
done
python3=$(command -v python3)
run measured alone "$python3" "$kit/bench/gpu.py" --scale 64 --device cpu --results "$work/results" train-gpt2-124m \
    train-llama-1b
run table alone "$python3" "$kit/bench/gpu.py" --results "$work/results" table
for model in gpt2-124m llama-1b; do
    grep -Eq "^\| $model \| lm-train, flash \| [0-9]+ \|" table || fail "no $model: $(cat table results)"
done
# A failure prints its reason, and the exit code reports it; no stage starts that cannot end in time.
expect 1 "" alone "$python3" "$kit/bench/gpu.py" --results "$work/failed" train-gpt2-124m
grep -q "^    failed: train-gpt2-124m, flash: exit 3: .*cuda" out || fail "$(cat out)"
expect 2 "'ops' .*500 s" alone "$python3" "$kit/bench/gpu.py" --within 100 ops
expect 2 "--llmc" alone "$python3" "$kit/bench/gpu.py" train-gpt2-124m-llmc

# gpu.py does not report figures of other kernels as those of cuDNN. It reads the figures of llm.c, and computes MFU by lm-train's
# formula. lm-train and llm.c are stand-ins here.
mkdir -p stand_in/bin stand_in/lib
touch stand_in/lib/liblm_cudnn.so
cat >stand_in/bin/lm-train <<'END'
#!/bin/sh
case "$*" in *"--attention-backend fused"*) echo "lm-train: --attention-backend fused: using the kernels of lm-train instead of cuDNN: why" >&2 ;; esac
printf 'benchmark: 1000.0 tokens/s\nGPU: 0.8 TFLOP/s (model), 0.8 TFLOP/s (by formula), MFU 20.0 %% of the peak of 4 TFLOP/s in bf16\n'
END
cat >stand_in/train_gpt2cu <<'END'
#!/bin/sh
[ "$6" = d12 ] && [ "$(head -c 4 "$2" | od -An -tu4 | tr -d ' ')" = 20240520 ] || exit 9
for i in 1 2 3 4 5 6 7; do echo "step $i/12 | loss 11.0 | norm 2.0 | lr 1e-4 | 524288.00 ms | 45.6% bf16 MFU | 2000 tok/s"; done
END
chmod +x stand_in/bin/lm-train stand_in/train_gpt2cu
export LM_BUILD=$work/stand_in
expect 1 "" "$root/bench/gpu.py" --results beside --llmc "$work/stand_in" train-gpt2-124m train-gpt2-124m-llmc
unset LM_BUILD
grep -q "failed: train-gpt2-124m, cudnn: lm-train: --attention-backend fused: .*cuDNN" out || fail "$(cat out)"
run table "$root/bench/gpu.py" --results beside table
grep -q "^| gpt2-124m | llm.c | 2000 | 39.9 |" table || fail "$(cat table beside)"
grep -q "^| gpt2-124m | lm-train, flash | 1000 | 20.0 | 40 |" table || fail "$(cat table beside)"
if grep "lm-train, cudnn" table; then fail "figures of other kernels than cuDNN's"; fi

echo "$(sed 's/.*: //' made) that test a GPU where nothing can be built"
