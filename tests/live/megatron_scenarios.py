#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trainings that megatron_training.py compares with Megatron, as command lines of lm-train, and their data."""
import dataclasses
import glob
import json
import os
import random
import subprocess

import live

ITERATIONS, VOCABULARY = 40, 257  # 256 bytes and the end of a document

COMMON = ("--hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --init-method-std 0.05 "
          "--attention-dropout 0 --hidden-dropout 0 --data-order megatron --tokenizer-type NullTokenizer "
          f"--vocab-size {VOCABULARY} --clip-grad 1.0 --weight-decay 0.1 --adam-beta2 0.95 --seed 4321").split()
ITERS = f"--train-iters {ITERATIONS} --micro-batch-size 2 --global-batch-size 8 "
COSINE = ITERS + f"--lr 2e-3 --min-lr 2e-4 --lr-decay-style cosine --lr-decay-iters {ITERATIONS} --lr-warmup-iters 4 "
ONE_SET = "--data-path a_text_document --split 100,0,0 --eval-iters 0 "
GPT2 = "--num-layers 2 "
LLAMA = ("--num-layers 2 --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear "
         "--ffn-hidden-size 96 --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 2 ")
ROPE = "--num-layers 2 --position-embedding-type rope "
UNTIED = "--untie-embeddings-and-output-weights "
MASKS = "--reset-position-ids --reset-attention-mask --eod-mask-loss "
DOCUMENTS = ONE_SET + MASKS
EVALUATED = "--data-path a_text_document --split 50,25,25 --eval-interval 20 --eval-iters 3 "
TENSOR, PIPELINE = "--tensor-model-parallel-size 2 ", "--pipeline-model-parallel-size 2 "


@dataclasses.dataclass
class Scenario:
    """`model`, `data` and `schedule` are flags of Megatron and lm-train, `layout` of lm-train alone."""
    model: str
    data: str = ONE_SET
    schedule: str = COSINE
    layout: str = ""
    ranks: int = 1

    def shared(self):
        return [*COMMON, *self.model.split(), *self.data.split(), *self.schedule.split()]


DECOUPLED = COSINE + "--decoupled-lr 5e-3 --decoupled-min-lr 5e-4 "
SCENARIOS = {
    "gpt2": Scenario(GPT2),
    "gpt2_tp2_pp2": Scenario(GPT2, layout=TENSOR + PIPELINE, ranks=4),
    "gpt2_ends_alone": Scenario(GPT2, layout=PIPELINE + "--num-virtual-stages-per-pipeline-rank 2 "
                                "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", ranks=2),
    "llama": Scenario(LLAMA),
    "llama_tp2_sequence_dp2": Scenario(LLAMA, layout=TENSOR + "--sequence-parallel --use-distributed-optimizer", ranks=4),
    "softmax_over_padding": Scenario(GPT2 + "--softmax-over-padding", layout=TENSOR + "--make-vocab-size-divisible-by 64", ranks=2),
    "llama31_scaling": Scenario(LLAMA + "--rotary-base 500000 --kv-channels 32 --use-rope-scaling --rope-scaling-factor 4",
                                layout=TENSOR, ranks=2),
    "nemotron": Scenario(ROPE + "--squared-relu --apply-layernorm-1p --rotary-percent 0.5 --disable-bias-linear " + UNTIED,
                         layout=PIPELINE, ranks=2),
    "qwen3_norms": Scenario(LLAMA + "--qk-layernorm", layout=TENSOR, ranks=2),
    "layernorm_of_heads": Scenario(ROPE + "--qk-layernorm --apply-layernorm-1p", layout=TENSOR + "--sequence-parallel", ranks=2),
    "qwen2_biases_interleaved": Scenario(LLAMA + "--add-qkv-bias --rotary-interleaved"),
    "mistral_window": Scenario(LLAMA + "--window-size 7,0", layout="--use-distributed-optimizer", ranks=2),
    "window_in_some_layers": Scenario(LLAMA + "--window-size 7,0 --window-attn-skip-freq 2", layout=PIPELINE, ranks=2),
    "layers_without_positions": Scenario(LLAMA + "--no-rope-freq [0,1]", layout=TENSOR, ranks=2),
    "decoupled_lr": Scenario(GPT2, schedule=DECOUPLED, layout=PIPELINE, ranks=2),
    "decoupled_lr_untied": Scenario(LLAMA, schedule=DECOUPLED),
    "weight_decay_cosine": Scenario(GPT2, schedule=COSINE + "--start-weight-decay 0.01 --end-weight-decay 0.5 "
                                    "--weight-decay-incr-style cosine"),
    "weight_decay_linear": Scenario(LLAMA, schedule=COSINE + "--start-weight-decay 0 --end-weight-decay 0.5 "
                                    "--weight-decay-incr-style linear", layout="--use-distributed-optimizer", ranks=2),
    "ramp": Scenario(GPT2, schedule="--micro-batch-size 2 --global-batch-size 16 --rampup-batch-size 4 4 160 --train-samples 480 "
                     "--lr 2e-3 --min-lr 2e-4 --lr-decay-style linear --lr-decay-samples 440 --lr-warmup-samples 50", ranks=2),
    "skipped_iterations": Scenario(GPT2, schedule=COSINE + "--iterations-to-skip 3 11 12"),
    "masked_ends": Scenario(GPT2, data=DOCUMENTS),
    "masked_ends_per_token": Scenario(LLAMA, data=DOCUMENTS + "--calculate-per-token-loss", ranks=2),
    "masked_evaluation": Scenario(GPT2, data=EVALUATED + MASKS),
    "masked_evaluation_tp2_dp2": Scenario(GPT2, data=EVALUATED + "--eod-mask-loss", layout=TENSOR, ranks=4),
    "masked_evaluation_pp2_dp2_per_token": Scenario(LLAMA, data=EVALUATED + MASKS + "--calculate-per-token-loss",
                                                    layout=PIPELINE + "--micro-batch-size 1", ranks=4),
    "blend_epochs": Scenario(GPT2, data="--data-path 0.3 a_text_document 0.7 b_text_document --split 80,20,0 --eval-interval 20 "
                             "--eval-iters 3", ranks=2),
    "wsd": Scenario(GPT2, schedule=ITERS + "--lr 2e-3 --min-lr 2e-4 --lr-decay-style WSD --lr-wsd-decay-style minus_sqrt "
                    f"--lr-wsd-decay-iters 15 --lr-decay-iters {ITERATIONS} --lr-warmup-fraction 0.1"),
    "inverse_square_root": Scenario("--num-layers 4", schedule=ITERS + "--lr 2e-3 --min-lr 1e-3 --lr-warmup-init 1e-4 "
                                    "--lr-decay-style inverse-square-root --lr-decay-iters 60 --lr-warmup-iters 6",
                                    layout=PIPELINE + "--num-layers-per-virtual-pipeline-stage 1", ranks=2),
}


for variable, value in (("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                        ("OMPI_MCA_rmaps_base_oversubscribe", "1"), ("OMPI_MCA_hwloc_base_binding_policy", "none")):
    os.environ.setdefault(variable, value)


def write_data():
    """Writes the two datasets of the scenarios; in most of them a training reads several epochs of `a`."""
    for prefix, documents, seed in (("a", 90, 7), ("b", 70, 8)):
        rng = random.Random(seed)
        with open(prefix + ".jsonl", "w", encoding="ascii") as out:
            for _ in range(documents):
                text = " ".join(rng.choice(("the", "cat", "sat", "on", "mat")) for _ in range(rng.randint(1, 20)))
                out.write(json.dumps({"text": text}) + "\n")
        live.run(live.tool("lm-preprocess"), "--input", prefix + ".jsonl", "--output-prefix", prefix, "--tokenizer-type",
                 "ByteTokenizer", "--append-eod", "--quiet")


def lm_train(flags, ranks=1):
    """Runs lm-train and returns the objects of its log."""
    if os.path.exists("log.json"):
        os.remove("log.json")
    launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    command = [*launcher, live.tool("lm-train"), *flags, "--device", "cpu", "--threads", "1", "--no-node-check",
               "--log-json", "log.json", "--log-interval", "1"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
                          check=False)
    if done.returncode:
        live.fail(f"{' '.join(command)}: exit {done.returncode}:\n{done.stdout}")
    with open("log.json", encoding="utf-8") as log:
        return [json.loads(line) for line in log]


def first_weights(scenario):
    """Returns the files with the weights that a training of the scenario starts with."""
    subprocess.run(["rm", "-rf", "first"], check=True)
    lm_train([*COMMON, *scenario.model.split(), *ONE_SET.split(), "--micro-batch-size", "1", "--global-batch-size", "1",
              "--train-iters", "1", "--lr", "0", "--save", "first"])
    return glob.glob("first/global_step1/weights-*.safetensors")


def measured(scenario):
    """Returns the numbers of each iteration of a scenario, and of its evaluations, by lm-train."""
    log = lm_train([*scenario.shared(), *scenario.layout.split()], scenario.ranks)
    steps = [item for item in log if item["kind"] == "step" and "lm_loss" in item]
    return {"losses": [step["lm_loss"] for step in steps], "norms": [step["grad_norm"] for step in steps],
            "rates": [step["learning_rate"] for step in steps], "samples": [step["consumed_samples"] for step in steps],
            "validation": [item["lm_loss"] for item in log if item["kind"] == "validation"]}
