#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# venv: .venv-megatron
"""lm-convert --to megatron-deepspeed: DeepSpeed's pipeline engine loads the export of a training that DeepSpeed began
(tests/golden/deepspeed), and its next losses are those of that training."""
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import tempfile

RANK = os.environ.get("RANK")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests", "golden", "deepspeed")


def golden():
    """The module that made the golden files, for one replica and the vocabulary of the export: a multiple of 128 rows."""
    spec = importlib.util.spec_from_file_location("make_checkpoints", GOLDEN + "/make_checkpoints.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.PADDED = 128
    return made


def continue_training(name):
    """On one rank: loads the export and prints the next losses."""
    import deepspeed
    import torch
    from deepspeed.accelerator import get_accelerator
    from deepspeed.pipe import PipelineModule
    from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology
    made = golden()
    torch.set_num_threads(1)
    get_accelerator().is_fp16_supported = lambda: True
    deepspeed.init_distributed(dist_backend="gloo")

    def loss_of(logits, labels):  # over the 32 rows of the golden model
        return torch.nn.functional.cross_entropy(logits.float().view(-1, 128)[:, :32], labels.reshape(-1))

    module = PipelineModule(made.modules(name), topology=PipeModelDataParallelTopology(made.STAGES, 1, 1), loss_fn=loss_of,
                            partition_method="uniform", activation_checkpoint_interval=0)
    decayed = [p for p in module.parameters() if p.dim() > 1]
    others = [p for p in module.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=0.01, betas=(0.9, 0.95), eps=1e-8)
    config = {"train_micro_batch_size_per_gpu": made.BATCH, "gradient_accumulation_steps": 1,
              "zero_optimization": {"stage": 1}, "steps_per_print": 1000, **made.RUNS[name]}
    engine, _, _, _ = deepspeed.initialize(model=module, optimizer=optimizer, config=config)
    loaded, _ = engine.load_checkpoint("exported", tag=f"global_step{made.STEPS}")
    assert loaded, "DeepSpeed found no checkpoint"
    for group, decay in zip(engine.optimizer.param_groups, (0.1, 0.0)):
        group.update(lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=decay)  # a run's flags, not part of an export
    with open(f"{name}-next.json", encoding="ascii") as file:
        samples = torch.tensor(json.load(file)["tokens"]).unfold(0, made.T + 1, made.T)
    losses = [float(engine.train_batch(iter([(samples[:, :-1], samples[:, 1:])]))) for _ in range(made.NEXT)]
    if torch.distributed.get_rank() == 0:
        with open("losses.json", "w", encoding="ascii") as file:
            json.dump(losses, file)
    torch.distributed.barrier()


def check(live, python, name):
    with tarfile.open(f"{GOLDEN}/{name}.tar.xz") as archive:
        archive.extractall()
    convert = live.tool("lm-convert")
    live.run(convert, name, "native", "--vocab-size", "32", "--quiet")
    live.run(convert, "native", "exported", "--to", "megatron-deepspeed", "--pipeline-model-parallel-size", "2", "--quiet")
    live.run(python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", __file__, live.BUILD, name)
    with open("losses.json", encoding="ascii") as file:
        losses = json.load(file)
    with open(f"{name}-next.json", encoding="ascii") as file:
        wanted = json.load(file)["losses"]
    limit, n = 1e-5, len(wanted)
    if name != "fp32":  # one replica rounds the gradients in another way than the three of the golden run
        limit, n = 1e-3, 2
    difference = max(abs(a - b) for a, b in zip(losses[:n], wanted[:n], strict=True))
    print(f"{name}: the next {n} losses of DeepSpeed differ by up to {difference:.1e}")
    if difference > limit:
        live.fail(f"{name}: {losses}, expected {wanted} within {limit}")
    live.run(python, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", "exported/global_step3", "--output_folder",
             "universal", "--num_extract_workers", "1", "--num_merge_workers", "1")
    live.run(convert, "universal", "back", "--vocab-size", "32", "--quiet")
    live.run(live.tool("lm-ckpt"), "diff", "native", "back")
    print(f"{name}: the universal form of the export has all bits")


def main():
    if RANK is not None:
        return continue_training(sys.argv[2])
    import live
    python = sys.executable
    reason = subprocess.run([python, "-c", "import deepspeed"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if reason.returncode:
        live.skip(f".venv-megatron has no DeepSpeed: {reason.stderr.strip().splitlines()[-1:]}")
    for name in ("fp32", "bf16", "fp16"):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            check(live, python, name)
            os.chdir("/")


if __name__ == "__main__":
    main()
