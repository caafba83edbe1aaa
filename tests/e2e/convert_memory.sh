#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-convert needs less than 1 GiB plus the largest tensor, in every direction, for a model of 4 GB. Needs 16 GB of disk.
# labels: proof
# timeout: 3600
build=$(realpath "$1")
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

cmake --build "$build" --target random_checkpoint >log || fail "$(tail log)"
"$build/bench/random_checkpoint" native

# converts IN OUT FLAGS...: converts IN, and compares the peak of the resident memory (VmHWM) with the limit.
converts() {
    python3 - "$@" <<'END' || fail "$*"
import glob, json, resource, struct, subprocess, sys
source, target, flags = sys.argv[1], sys.argv[2], sys.argv[3:]
largest = 0
for path in glob.glob("native/**/*.safetensors", recursive=True):
    with open(path, "rb") as file:
        entries = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    for name, entry in entries.items():
        if name != "__metadata__":
            largest = max(largest, entry["data_offsets"][1] - entry["data_offsets"][0])
assert largest > 100e6, largest
process = subprocess.Popen(["lm-convert", source, target, "--quiet", *flags], stdin=subprocess.DEVNULL)
peak = 0
while process.poll() is None:
    try:
        with open(f"/proc/{process.pid}/status") as file:
            peak = max([peak] + [int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:")])
        process.wait(0.02)
    except (subprocess.TimeoutExpired, OSError):
        pass
assert process.returncode == 0, process.returncode
# The kernel's peak of all children so far: it includes the time after the last sample, at most 20 ms.
peak = max(peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)
limit = (1 << 30) + largest
print(f"{source} to {target}: {peak >> 20} MiB of at most {limit >> 20}")
assert peak < limit, (peak, limit)
END
}

for target in "hf --to hf-gpt2" "bin --to hf-gpt2 --format bin" \
    "lm --to megatron-lm --tensor-model-parallel-size 4" \
    "ds --to megatron-deepspeed --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"; do
    read -ra words <<<"$target"
    converts native "${words[@]}"
    converts "${words[0]}" back
    expect 0 '' lm-ckpt diff native back --weights-only
    rm -r "${words[0]}" back
done
