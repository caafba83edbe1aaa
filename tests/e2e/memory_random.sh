#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-train reports the bytes that it has allocated: they equal those of lm-estimate memory, for random models, layouts,
# precisions and kinds of recomputation. Each run then makes a step.
# labels: long
# timeout: 600
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$(dirname "$0")/mpirun.bash"

cat >compare.py <<'PY'
import json, random, re, subprocess, sys

rng = random.Random(20)
FAMILIES = {
    "gpt": [],
    "bloom": ["--position-embedding-type", "alibi", "--embed-layernorm"],
    "llama": ["--swiglu", "--disable-bias-linear", "--normalization", "RMSNorm", "--position-embedding-type", "rope",
              "--untie-embeddings-and-output-weights"],
    "grouped": ["--group-query-attention", "--num-query-groups", "4", "--squared-relu", "--position-embedding-type", "rope"]}

def draw(number):
    """Returns the number of ranks and the flags of a random run."""
    tp, pp, dp = rng.choice([1, 1, 2, 4]), rng.choice([1, 2, 3]), rng.choice([1, 2])
    chunks = rng.choice([1, 2]) if pp > 1 else 1
    micro = rng.choice([1, 2, 3])
    n_micro = rng.choice([1, 2, 5]) * (pp if chunks > 1 else 1)
    layers = pp * chunks * rng.choice([1, 2]) + (rng.choice([0, 1]) if chunks == 1 else 0)
    flags = ["--num-layers", layers, "--hidden-size", rng.choice([32, 64, 96]), "--num-attention-heads", rng.choice([4, 8]),
             "--seq-length", rng.choice([16, 32, 48]), "--vocab-size", rng.randint(100, 3000), "--micro-batch-size", micro,
             "--global-batch-size", micro * n_micro * dp, "--tensor-model-parallel-size", tp, "--pipeline-model-parallel-size", pp,
             "--threads", rng.choice([1, 2])]
    flags += list(FAMILIES.values())[number % len(FAMILIES)]
    flags += rng.choice([[], ["--bf16"], ["--fp16"]])
    flags += rng.choice([[], ["--use-distributed-optimizer"]])
    flags += rng.choice([[], ["--recompute-activations"], ["--recompute-granularity", "full", "--recompute-method", "uniform"]])
    if chunks > 1:
        flags += ["--num-virtual-stages-per-pipeline-rank", chunks]
    if tp > 1 and rng.random() < 0.5:
        flags += ["--sequence-parallel"]
    return tp * pp * dp, [str(flag) for flag in flags]

def run(command):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr[-2000:]}")
    return done

n_runs, seen = int(sys.argv[1]), set()
for number in range(n_runs):
    n_ranks, flags = draw(number)
    started = run(["mpirun", "-n", str(n_ranks), "lm-train", *flags, "--mock-data", "--train-iters", "1", "--lr", "1e-4",
                   "--eval-iters", "0", "--no-node-check"])
    allocated = int(re.search(r"^ > allocated .*\((\d+) bytes\) on rank", started.stderr, re.M)[1])
    rows = [json.loads(line) for line in run(["lm-estimate", "memory", *flags, "--world-size", str(n_ranks), "--json"]).stdout.splitlines()]
    estimate = max(row["total"] for row in rows if row["kind"] == "rank")
    if allocated != estimate:
        sys.exit(f"{n_ranks} ranks, {' '.join(flags)}: allocated {allocated}, estimated {estimate}")
    seen.add(estimate)
if len(seen) < n_runs // 2:
    sys.exit(f"only {len(seen)} different sizes in {n_runs} runs")
print(f"{n_runs} runs allocate the estimated bytes: {min(seen)} to {max(seen)}")
PY
python3 compare.py 36 || fail "see above"
