#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/megatron-cases on configurations in the form of Megatron-LM's functional tests: one that lm-train accepts and trains,
one that it refuses, one of inference."""
import os
import shutil
import subprocess
import sys
import tempfile

import live

ACCEPTED = """ENV_VARS:
  NCCL_ALGO: Ring
MODEL_ARGS:
  --num-layers: 12
  --hidden-size: 512
  --num-attention-heads: 8
  --log-params-norm: true
  --log-progress: false
  --tensorboard-dir: ${TENSORBOARD_PATH}
  --micro-batch-size: 4
  --seq-length: 1024
  --max-position-embeddings: 1024
  --train-iters: 50
  --lr-decay-iters: 320000
  --save: ${CHECKPOINT_SAVE_PATH}
  --load: ${CHECKPOINT_LOAD_PATH}
  --data-path: ${DATA_PATH}/text/my-gpt3_00_text_document
  --vocab-file: ${DATA_PATH}/text/bpe/vocab.json
  --merge-file: ${DATA_PATH}/text/bpe/merges.txt
  --split: 949,50,1
  --lr: 0.00015
  --min-lr: 1.0e-5
  --clip-grad: 1.0
  --lr-warmup-fraction: .01
  --save-interval: 10000
  --save-retain-interval: 10000
  --eval-iters: 10
  --tensor-model-parallel-size: 2
  --pipeline-model-parallel-size: 2
  --step-batch-size-schedule: "0:384 200B:768"
  --bf16: true
TEST_TYPE: regular
"""


def main():
    if shutil.which("mpirun") is None:
        live.skip("there is no mpirun")
    cases = {"accepted": ACCEPTED, "refused": ACCEPTED + "MODE: pretraining\n", "other": ACCEPTED + "MODE: inference\n"}
    cases["refused"] = cases["refused"].replace("  --bf16: true\n", "  --bf16: true\n  --context-parallel-size: 2\n")
    with tempfile.TemporaryDirectory() as checkout:
        for name, text in cases.items():
            folder = os.path.join(checkout, "tests/functional_tests/test_cases/gpt", name)
            os.makedirs(folder)
            with open(os.path.join(folder, "model_config.yaml"), "w", encoding="utf-8") as out:
                out.write(text)
        program = [sys.executable, os.path.join(live.ROOT, "tools", "megatron-cases")]
        options = ["--bin", os.path.join(live.BUILD, "bin")]
        trained = live.run(*program, checkout, *options, "--train")
        if not trained.endswith("1 trained, 1 refused; 1 of inference not run\n") or "--context-parallel-size" not in trained:
            live.fail(f"unexpected: {trained}")
        nothing = subprocess.run(program + [os.path.join(checkout, "tests"), *options], capture_output=True, text=True, check=False)
        if nothing.returncode == 0 or "a checkout of Megatron-LM is expected" not in nothing.stderr:
            live.fail(f"a directory without tests: {nothing.stderr}")
    print(trained.splitlines()[-1])


if __name__ == "__main__":
    main()
