#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-train allocates the memory of lm-estimate memory, and the process needs no more than that plus the
# allowance that lm-estimate(1) states.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

model=(--num-layers 6 --hidden-size 384 --num-attention-heads 6 --seq-length 256 --vocab-size 50257 --micro-batch-size 4)
same_plan() {
    lm-train "${model[@]}" "$@" --mock-data --train-iters 3 --lr 1e-4 --threads 2 --save saved --print-config >config.json
    lm-estimate memory "${model[@]}" "$@" --threads 2 --json >estimate.json
    python3 compare.py || fail "$*"
}
cat >compare.py <<'PY'
import json
train = json.load(open("config.json"))["memory_bytes"]
for line in open("estimate.json"):
    estimate = json.loads(line)
    print(estimate)
    found = {k: v for k, v in estimate.items() if k in train}
    if "total" in found or len(found) > 3:
        assert all(train[k] == v for k, v in found.items()), (train, found)
        break
else:
    raise SystemExit("no line of lm-estimate names these kinds")
PY
same_plan --recompute-activations
same_plan --recompute-granularity full --recompute-num-layers 4
same_plan --recompute-granularity full --recompute-method block --recompute-num-layers 2
same_plan

# Peak resident memory of three steps, as the kernel reports it.
python3 - "${model[@]}" <<'PY'
import json, resource, subprocess, sys
plan = json.load(open("config.json"))["memory_bytes"]["total"]
subprocess.run(["lm-train", *sys.argv[1:], "--mock-data", "--train-iters", "3", "--lr", "1e-4", "--threads", "2",
                "--eval-iters", "0"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
allowance = 100 << 20  # libraries, oneDNN's code and its own buffers, the loader
print(f"plan {plan / 2**20:.0f} MiB, peak {peak / 2**20:.0f} MiB")
assert peak < plan * 1.05 + allowance, "more than the plan and the allowance"
assert peak > plan * 0.85, "much less than the plan: something planned is not used"
PY
