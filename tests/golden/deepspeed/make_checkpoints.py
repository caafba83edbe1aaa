#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_checkpoints.py FOLDER [RUN...]: trains a small GPT in DeepSpeed's pipeline on the CPU for three steps, saves it, converts it
to the universal form, and writes FOLDER/*.tar.xz. Needs torch 2.6 or later and DeepSpeed 0.19 (README.md)."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings

RANK = os.environ.get("RANK")
VOCABULARY, PADDED, T, BATCH, STEPS, LAYERS, HIDDEN, HEADS, FFN = 29, 32, 8, 2, 3, 2, 8, 2, 12
STAGES, REPLICAS = 2, 3
NEXT = 3  # steps after the save, all on the same batch
# name: the settings of DeepSpeed
RUNS = {
    "bf16": {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}},
    "fp16": {"fp16": {"enabled": True, "initial_scale_power": 10, "loss_scale_window": 2, "hysteresis": 2}},
    "fp32": {},
}


def args_of(name):
    """The attributes of Megatron-DeepSpeed's args that describe the model."""
    return argparse.Namespace(
        num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, ffn_hidden_size=FFN, kv_channels=HIDDEN // HEADS,
        seq_length=T, max_position_embeddings=T, attention_dropout=0.0, hidden_dropout=0.0, layernorm_epsilon=1e-5,
        init_method_std=0.02, bias_gelu_fusion=False, openai_gelu=True, swiglu=False, padded_vocab_size=PADDED,
        position_embedding_type="learned_absolute", tensor_model_parallel_size=1, pipeline_model_parallel_size=STAGES,
        consumed_train_samples=STEPS * BATCH * REPLICAS, seed=1234, num_experts=[1], bf16=name == "bf16", fp16=name == "fp16",
        params_dtype=dtype_of(name))


def dtype_of(name):
    import torch
    return {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[name]


def modules(name):
    """The specifications of the pipeline's layers, with the names of Megatron-DeepSpeed's parameters."""
    import torch
    from deepspeed.pipe import LayerSpec, TiedLayerSpec
    from torch import nn

    class Embedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.word_embeddings = nn.Embedding(PADDED, HIDDEN)
            self.position_embeddings = nn.Embedding(T, HIDDEN)
            for table in (self.word_embeddings, self.position_embeddings):
                nn.init.normal_(table.weight, std=0.2)

        def forward(self, tokens):
            return self.word_embeddings(tokens) + self.position_embeddings(torch.arange(T))

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query_key_value, self.dense = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)

        def forward(self, x):
            qkv = self.query_key_value(x).view(*x.shape[:2], HEADS, 3, HIDDEN // HEADS)
            q, k, v = (part.transpose(1, 2) for part in qkv.unbind(3))
            out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.dense(out.transpose(1, 2).reshape(x.shape))

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense_h_to_4h, self.dense_4h_to_h = nn.Linear(HIDDEN, FFN), nn.Linear(FFN, HIDDEN)

        def forward(self, x):
            return self.dense_4h_to_h(nn.functional.gelu(self.dense_h_to_4h(x), approximate="tanh"))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.input_layernorm, self.self_attention = nn.LayerNorm(HIDDEN), Attention()
            self.post_attention_layernorm, self.mlp = nn.LayerNorm(HIDDEN), Mlp()

        def forward(self, x):
            x = x + self.self_attention(self.input_layernorm(x))
            return x + self.mlp(self.post_attention_layernorm(x))

    def logits(embedding, x):
        return x @ embedding.word_embeddings.weight.T

    tied = {"tied_weight_attr": ["word_embeddings.weight"]}
    return [lambda tokens: tokens, TiedLayerSpec("embed", Embedding, **tied), *[LayerSpec(Layer) for _ in range(LAYERS)],
            LayerSpec(nn.LayerNorm, HIDDEN), TiedLayerSpec("embed", Embedding, forward_fn=logits, **tied)]


def tokens_of(step, replica):
    """A sequence whose BATCH samples of T + 1 tokens overlap by one token, as those of Megatron's datasets."""
    import torch
    seed = 100 * step + replica if step < STEPS else 100 * STEPS
    return torch.randint(0, VOCABULARY, (BATCH * T + 1,), generator=torch.Generator().manual_seed(seed))


def own_names(name, tensor):
    """The tensors of lm-utils in a parameter of the pipeline: (name, tensor)."""
    outer = {"tied_modules.embed.word_embeddings.weight": "embedding.word.weight",
             "tied_modules.embed.position_embeddings.weight": "embedding.position.weight",
             f"{LAYERS + 2}.weight": "final_norm.weight", f"{LAYERS + 2}.bias": "final_norm.bias"}
    if name in outer:
        return [(outer[name], tensor)]
    layer, module, kind = name.split(".", 1)[0], name.split(".", 1)[1].rsplit(".", 1)[0], name.rsplit(".", 1)[1]
    at = f"layers.{int(layer) - 2}."
    if module == "self_attention.query_key_value":
        parts = tensor.view(HEADS, 3, HIDDEN // HEADS, *tensor.shape[1:]).unbind(1)
        return [(f"{at}attention.{part}.{kind}", value.reshape(HIDDEN, *tensor.shape[1:]))
                for part, value in zip(("query", "key", "value"), parts)]
    inner = {"input_layernorm": "attention.norm", "self_attention.dense": "attention.output",
             "post_attention_layernorm": "mlp.norm", "mlp.dense_h_to_4h": "mlp.up", "mlp.dense_4h_to_h": "mlp.down"}
    return [(f"{at}{inner[module]}.{kind}", tensor)]


def state_of(engine, mixed):
    """The weights, masters and moments that DeepSpeed holds in memory: {name in lm-utils: numbers as hexadecimal text}."""
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    if hasattr(engine.optimizer, "_lazy_init_hp_params_optimizer_state"):
        engine.optimizer._hp_optimizer_states_linked = False  # they were linked before the moments existed
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    out = {}
    for name, parameter in engine.module.named_parameters():
        if name.startswith("tied_modules.") and engine.grid.get_stage_id() > 0:
            continue
        kinds = {"weight": parameter.detach(), "exp_avg": safe_get_full_optimizer_state(parameter, "exp_avg"),
                 "exp_avg_sq": safe_get_full_optimizer_state(parameter, "exp_avg_sq")}
        if mixed:
            kinds["master"] = safe_get_full_fp32_param(parameter)
        for kind, tensor in kinds.items():
            for own, value in own_names(name, tensor):
                out[own if kind == "weight" else f"{own}.{kind}"] = value.float().contiguous().numpy().tobytes().hex()
    return out


def client_state(name):
    rows = [r"\d+.mlp.dense_4h_to_h.weight", r"\d+.self_attention.dense.weight"]
    words, positions = r"tied_modules.embed.word_embeddings.weight", r"tied_modules.embed.position_embeddings.weight"
    return {"args": args_of(name), "checkpoint_version": 3.0, "iteration": STEPS,
            "checkpoint_info": {"padded_vocab_size": PADDED, "original_vocab_size": VOCABULARY},
            "universal_checkpoint_info": {"universal_checkpoint_version": 0.2, "original_vocab_size": VOCABULARY,
                                          "vocabulary_parameter_patterns": [words], "tp_replicated_parameter_patterns": [],
                                          "pipeline_replicated_parameter_patterns": [words, positions],
                                          "parameter_to_average_patterns": [],
                                          "parameter_with_row_parallelism_patterns": rows}}


def train(name, folder):
    """On one rank: trains and saves one run."""
    import deepspeed
    import torch
    from deepspeed.accelerator import get_accelerator
    from deepspeed.pipe import PipelineModule
    from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(5)
    get_accelerator().is_fp16_supported = lambda: True  # it is, by PyTorch's CPU kernels
    deepspeed.init_distributed(dist_backend="gloo")

    def loss_of(logits, labels):
        return torch.nn.functional.cross_entropy(logits.float().view(-1, PADDED), labels.reshape(-1))

    module = PipelineModule(modules(name), topology=PipeModelDataParallelTopology(STAGES, 1, REPLICAS), loss_fn=loss_of,
                            partition_method="type:Layer", activation_checkpoint_interval=0)
    with torch.no_grad():  # so that no tensor is constant
        for i, (_, value) in enumerate(sorted(module.named_parameters())):
            if value.dim() == 1:
                value += 0.01 * torch.arange(value.numel()) + 0.001 * i
    decayed = [p for p in module.parameters() if p.dim() > 1]
    others = [p for p in module.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=0.01, betas=(0.9, 0.95), eps=1e-8)
    config = {"train_micro_batch_size_per_gpu": BATCH, "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 1},
              "steps_per_print": 1000, **RUNS[name]}
    engine, _, _, _ = deepspeed.initialize(model=module, optimizer=optimizer, config=config)
    replica = engine.grid.get_data_parallel_rank()
    losses = []
    for step in range(STEPS + NEXT):
        if step == STEPS:
            state = state_of(engine, name != "fp32")
            if replica == 0:
                with open(f"{folder}/{name}-state-{engine.grid.get_stage_id()}.json", "w", encoding="ascii") as file:
                    json.dump(state, file)
            engine.save_checkpoint(f"{folder}/{name}", tag=f"global_step{STEPS}", client_state=client_state(name))
        samples = tokens_of(step, replica).unfold(0, T + 1, T)
        losses.append(float(engine.train_batch(iter([(samples[:, :-1], samples[:, 1:])]))))
    if torch.distributed.get_rank() == 0:
        with open(f"{folder}/{name}-next.json", "w", encoding="ascii") as file:
            json.dump({"tokens": tokens_of(STEPS, 0).tolist(), "losses": losses[STEPS:]}, file)
    torch.distributed.barrier()


def main():
    if RANK is not None:
        return train(sys.argv[2], sys.argv[1])
    out = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or RUNS:
            subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={STAGES * REPLICAS}",
                            __file__, folder, name], check=True, stdin=subprocess.DEVNULL)
            step = f"{folder}/{name}/global_step{STEPS}"
            subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", step,
                            "--output_folder", step + "_universal", "--num_extract_workers", "1", "--num_merge_workers", "1"],
                           check=True, stdin=subprocess.DEVNULL)
            subprocess.run(f"tar --sort=name --mtime=@0 --owner=0 --group=0 -cJf {out}/{name}.tar.xz {name} {name}-*", shell=True,
                           cwd=folder, check=True)


if __name__ == "__main__":
    main()
