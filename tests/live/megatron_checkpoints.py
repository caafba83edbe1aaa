#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of lm-train, written by torch in Megatron's layouts and imported again: weights, masters and moments
keep every bit, and a training that continues from the import ends with the bits of the uninterrupted training."""
import argparse
import collections
import dataclasses
import enum
import glob
import os
import random
import shutil
import subprocess
import sys
import tempfile
import types

import numpy as np
import torch
from safetensors.torch import load_file

import live

T, VOCABULARY, STEP = 16, 257, 4
COMMON = (f"--num-layers 4 --seq-length {T} --max-position-embeddings {T} --attention-dropout 0 --hidden-dropout 0 "
          "--micro-batch-size 2 --global-batch-size 2 --lr 1e-2 --min-lr 1e-3 --lr-decay-iters 6 --device cpu "
          "--threads 1 --clip-grad 1.0 --weight-decay 0.1 --data-path some_text_document").split()
KINDS = ("weight", "master", "exp_avg", "exp_avg_sq")


def module(name, **members):
    """Makes an importable module, so that torch pickles its classes by the names that Megatron has."""
    made = types.ModuleType(name)
    for key, member in members.items():
        setattr(made, key, member)
        member.__module__, member.__qualname__ = name, key
    sys.modules[name] = made
    return made


class PositionEmbeddingType(enum.Enum):
    rotary, absolute, alibi = 1, 2, 3


class ZeroStageEnum(int, enum.Enum):
    optimizer_states = 1


@dataclasses.dataclass
class fragment_address:
    numel: int
    start: int


class DynamicLossScaler:
    """The state of the loss scaler after STEP steps without an overflow."""

    def __init__(self):
        self.cur_scale, self.cur_iter, self.last_overflow_iter = 1024.0, STEP, -1
        self.scale_window, self.cur_hysteresis, self.raise_error_at_min_scale = 1000, 2, True


for parent in ("megatron", "megatron.model", "deepspeed", "deepspeed.utils", "deepspeed.runtime", "deepspeed.runtime.zero",
               "deepspeed.runtime.fp16"):
    module(parent)
module("megatron.model.enums", PositionEmbeddingType=PositionEmbeddingType)
module("deepspeed.utils.tensor_fragment", fragment_address=fragment_address)
module("deepspeed.runtime.zero.config", ZeroStageEnum=ZeroStageEnum)
module("deepspeed.runtime.fp16.loss_scaler", DynamicLossScaler=DynamicLossScaler)


@dataclasses.dataclass
class Model:
    name: str
    flags: str
    heads: int
    groups: int
    gated: bool = False
    tied: bool = True
    position: str = "absolute"
    args: dict = dataclasses.field(default_factory=dict)


LLAMA = Model("llama", "--hidden-size 32 --num-attention-heads 8 --group-query-attention --num-query-groups 4 --swiglu "
              "--normalization RMSNorm --position-embedding-type rope --disable-bias-linear --ffn-hidden-size 48 "
              "--untie-embeddings-and-output-weights --rotary-base 5000 --bf16", 8, 4, True, False, "rope",
              {"normalization": "RMSNorm", "swiglu": True, "add_bias_linear": False, "group_query_attention": True,
               "num_query_groups": 4, "untie_embeddings_and_output_weights": True, "rotary_base": 5000,
               "ffn_hidden_size": 48})
GPT2 = Model("gpt2", "--hidden-size 48 --num-attention-heads 12 --ffn-hidden-size 40", 12, 12, args={"ffn_hidden_size": 40})
BLOOM = Model("bloom", "--hidden-size 32 --num-attention-heads 4 --position-embedding-type alibi --embed-layernorm --bf16",
              4, 4, position="alibi", args={"embed_layernorm": True})
HALF = Model("half", "--hidden-size 32 --num-attention-heads 4 --fp16 --initial-loss-scale 1024", 4, 4)


class Native:
    """The tensors of a checkpoint of lm-train: native[kind][name]."""

    def __init__(self, model, saved):
        self.model, self.kinds = model, {kind: {} for kind in KINDS}
        for file in glob.glob(saved + "/global_step*/*.safetensors"):
            for entry, tensor in load_file(file).items():
                name, kind = entry, "weight"
                for other in KINDS[1:]:
                    if entry.endswith("." + other):
                        name, kind = entry[:-len(other) - 1], other
                self.kinds[kind][name] = tensor
        self.kinds = {kind: tensors for kind, tensors in self.kinds.items() if tensors}
        self.hidden = self.kinds["weight"]["embedding.word.weight"].shape[1]

    def padded(self, kind, name, tp):
        """The rows of the vocabulary, padded with other numbers to a multiple of 8 * tp."""
        table = self.kinds[kind][name]
        rows = -(-VOCABULARY // (8 * tp)) * 8 * tp
        return torch.cat([table, torch.full((rows - VOCABULARY, self.hidden), 7.0, dtype=table.dtype)])

    def qkv(self, kind, prefix, suffix, tp, rank, version):
        q, k, v = (self.kinds[kind][f"{prefix}.{part}{suffix}"] for part in ("query", "key", "value"))
        groups, d = self.model.groups, k.shape[0] // self.model.groups
        mine = slice(groups // tp * rank, groups // tp * (rank + 1))
        parts = [part.reshape(groups, -1, *part.shape[1:])[mine] for part in (q, k, v)]
        if version >= 2:
            fused = torch.cat(parts, 1)
        elif version == 1:
            fused = torch.stack([part.reshape(-1, d, *part.shape[2:]) for part in parts], 2)
        else:
            fused = torch.cat([part.reshape(-1, *part.shape[2:]) for part in parts])
        return fused.reshape(-1, *q.shape[1:])

    def layer(self, kind, number, tp, rank, version=3):
        own, at = self.kinds[kind], f"layers.{number}"
        rows = lambda tensor: tensor.chunk(tp)[rank]
        out = collections.OrderedDict()

        def norm(theirs, ours):
            for suffix in (".weight", ".bias"):
                if ours + suffix in own:
                    out[theirs + suffix] = own[ours + suffix]

        def linear(theirs, make, ours):
            for suffix in (".weight", ".bias"):
                if ours + suffix in own:
                    out[theirs + suffix] = make(suffix)

        norm("input_layernorm", at + ".attention.norm")
        linear("self_attention.query_key_value",
               lambda suffix: self.qkv(kind, at + ".attention", suffix, tp, rank, version), at + ".attention.query")
        row = lambda ours: lambda suffix: own[ours + suffix].chunk(tp, 1)[rank] if suffix == ".weight" else own[ours + suffix]
        linear("self_attention.dense", row(at + ".attention.output"), at + ".attention.output")
        norm("post_attention_layernorm", at + ".mlp.norm")
        halves = ("gate", "up") if self.model.gated else ("up",)
        linear("mlp.dense_h_to_4h",
               lambda suffix: torch.cat([rows(own[f"{at}.mlp.{half}{suffix}"]) for half in halves]), at + ".mlp.up")
        linear("mlp.dense_4h_to_h", row(at + ".mlp.down"), at + ".mlp.down")
        return out

    def embedding(self, kind, tp, rank):
        own = self.kinds[kind]
        out = collections.OrderedDict()
        out["word_embeddings.weight"] = self.padded(kind, "embedding.word.weight", tp).chunk(tp)[rank]
        for suffix in ("weight", "bias"):
            if "embedding.norm." + suffix in own:
                out["word_embeddings.norm." + suffix] = own["embedding.norm." + suffix]
        if "embedding.position.weight" in own:
            out["position_embeddings.weight"] = own["embedding.position.weight"]
        return out

    def final_norm(self, kind):
        return collections.OrderedDict((name.split(".")[1], tensor) for name, tensor in sorted(self.kinds[kind].items(), reverse=True)
                                       if name.startswith("final_norm."))


def view(tensor):
    """Returns the numbers as a view with an offset into a larger storage; the view of a matrix is not contiguous."""
    if tensor.dim() == 1:
        storage = torch.zeros(tensor.numel() + 5, dtype=tensor.dtype)
        storage[3:3 + tensor.numel()] = tensor
        return storage[3:3 + tensor.numel()]
    storage = torch.zeros(tensor.shape[0], tensor.shape[1] + 3, dtype=tensor.dtype)
    storage[:, 2:-1] = tensor
    return storage[:, 2:-1]


def args_of(native, tp, pp, virtual, flavour):
    model = native.model
    args = {"num_layers": 4, "hidden_size": native.hidden, "num_attention_heads": model.heads, "seq_length": T,
            "max_position_embeddings": T, "ffn_hidden_size": 4 * native.hidden, "kv_channels": native.hidden // model.heads,
            "attention_dropout": 0.0, "hidden_dropout": 0.0, "layernorm_epsilon": 1e-5, "init_method_std": 0.02,
            "bias_gelu_fusion": True, "openai_gelu": False, "consumed_train_samples": 2 * STEP, "seed": 1234,
            "padded_vocab_size": -(-VOCABULARY // (8 * tp)) * 8 * tp, "pipeline_model_parallel_size": pp,
            "virtual_pipeline_model_parallel_size": virtual, "params_dtype": torch.bfloat16, "num_experts": None}
    args["model_parallel_size" if flavour == "old" else "tensor_model_parallel_size"] = tp
    args["position_embedding_type"] = (PositionEmbeddingType[model.position.replace("rope", "rotary")] if flavour == "deepspeed" else
                                       "learned_absolute" if model.position == "absolute" else model.position)
    args.update(model.args)
    return argparse.Namespace(**args)


def rng():
    return {"random_rng_state": random.getstate(), "np_rng_state": np.random.get_state(),
            "torch_rng_state": torch.get_rng_state(), "cuda_rng_state": torch.get_rng_state()[:16],
            "rng_tracker_states": {"model-parallel-rng": torch.get_rng_state()[:16]}}


def write_megatron_lm(native, directory, tp, pp, virtual, version):
    model, pieces = native.model, virtual or 1
    for p in range(pp):
        for r in range(tp):
            chunks = []
            for v in range(pieces):
                params = {}
                for kind in native.kinds:
                    flat = params[kind] = collections.OrderedDict()
                    if p == 0 and v == 0:
                        for name, tensor in native.embedding(kind, tp, r).items():
                            flat["language_model.embedding." + name] = tensor
                    n = 4 // (pp * pieces)
                    for local in range(n):
                        for name, tensor in native.layer(kind, v * (4 // pieces) + p * n + local, tp, r, version).items():
                            flat[f"language_model.encoder.layers.{local}.{name}"] = tensor
                    if p == pp - 1 and v == pieces - 1:
                        for name, tensor in native.final_norm(kind).items():
                            flat["language_model.encoder.final_layernorm." + name] = tensor
                        if not model.tied:
                            flat["language_model.output_layer.weight"] = native.padded(kind, "head.weight", tp).chunk(tp)[r]
                        elif pp > 1:
                            flat["word_embeddings_for_head.weight"] = native.padded(
                                kind, "embedding.word.weight", tp).chunk(tp)[r]
                chunks.append(params)
            top = {"args": args_of(native, tp, pp, virtual, "old" if version < 2 else "lm"), "checkpoint_version": version,
                   "iteration": STEP, "optimizer": optimizer_of(native, chunks), "opt_param_scheduler": {"num_steps": 8}}
            top.update(rng() if version < 3 else {"rng_state": [rng()]})
            if version == 0:
                del top["checkpoint_version"]
            for v, params in enumerate(chunks):
                top["model" if virtual is None else f"model{v}"] = nested(params["weight"])
            folder = f"{directory}/iter_{STEP:07d}/mp_rank_{r:02d}" + (f"_{p:03d}" if pp > 1 else "")
            os.makedirs(folder)
            torch.save(top, folder + "/model_optim_rng.pt")
    with open(directory + "/latest_checkpointed_iteration.txt", "w", encoding="ascii") as file:
        file.write(f"{STEP}\n")


def nested(flat):
    """Returns a state_dict nested as Megatron's: the parts of the embedding are dicts, the encoder is flat."""
    out = {}
    for name, tensor in flat.items():
        at, keys = out, name.split(".")
        depth = 4 if "embedding." in name else 2 if name.startswith("language_model") else 1
        for key in keys[:min(depth, len(keys)) - 1]:
            at = at.setdefault(key, collections.OrderedDict())
        at[".".join(keys[min(depth, len(keys)) - 1:])] = view(tensor)
    return out


def decays(name, tensor):
    return not name.endswith(".bias") and tensor.dim() > 1


def optimizer_of(native, chunks):
    """The optimizer of PyTorch or Apex, wrapped for mixed precision: groups with and without weight decay."""
    mixed = "master" in native.kinds
    groups, masters, state, number = [], [], {}, 0
    for decay in (True, False):
        ids, copies = [], []
        for params in chunks:
            for name, tensor in params["exp_avg"].items():
                if decays(name, tensor) != decay:
                    continue
                ids.append(number)
                state[number] = {"exp_avg": view(tensor), "exp_avg_sq": params["exp_avg_sq"][name].clone()}
                if not mixed:
                    state[number]["step"] = torch.tensor(float(STEP))
                else:
                    copies.append(torch.nn.Parameter(params["master"][name].clone()))
                number += 1
        group = {"params": ids, "lr": 0.01, "weight_decay": 0.1 if decay else 0.0, "betas": (0.9, 0.999), "eps": 1e-8}
        if mixed:
            group["step"] = STEP
        if ids:
            groups.append(group)
            masters.append(copies)
    inner = {"state": state, "param_groups": groups}
    if not mixed:
        return inner
    return {"optimizer": inner, "fp32_from_fp16_params": masters,
            "grad_scaler": {"scale": torch.tensor([1024.0]), "growth_tracker": STEP, "hysteresis_tracker": 2}}


def write_deepspeed(native, directory, tp, pp, dp, bigscience):
    step = f"{directory}/global_step{STEP}"
    os.makedirs(step)
    first = 3 if bigscience else 2
    norm = 4 + first + (1 if bigscience else 0)
    stage_of = lambda layer: 0 if layer == 1 else pp - 1 if layer >= norm else (layer - first) * pp // 4
    for r in range(tp):
        layers = {kind: {1: native.embedding(kind, tp, r)} for kind in native.kinds}
        for kind, into in layers.items():
            into.update({first + number: native.layer(kind, number, tp, r) for number in range(4)})
            into[norm] = native.final_norm(kind)
            if not native.model.tied:
                into[norm + 1] = {"lm_head.weight": native.padded(kind, "head.weight", tp).chunk(tp)[r]}
        for layer, tensors in layers["weight"].items():
            torch.save(collections.OrderedDict((name, view(tensor)) for name, tensor in tensors.items()),
                       f"{step}/layer_{layer:02d}-model_{r:02d}-model_states.pt")
        for p in range(pp):
            names = [(layer, name) for layer, tensors in layers["weight"].items() if stage_of(layer) == p for name in tensors]
            if p > 0 and p == pp - 1 and native.model.tied:
                names += [(1, "word_embeddings.weight")]
            write_zero(native, step, layers, names, p * tp + r, (tp, pp, dp), bigscience)
    with open(directory + "/latest", "w", encoding="ascii") as file:
        file.write(f"global_step{STEP}")


def write_universal(native, directory):
    """Writes the form that ds_to_universal.py merges: whole fp32 parameters, without the padded rows of the vocabulary."""
    step = f"{directory}/global_step{STEP}_universal"
    for layer in range(1, 8):
        for kind, file in (("master", "fp32"), ("exp_avg", "exp_avg"), ("exp_avg_sq", "exp_avg_sq")):
            params = (native.embedding(kind, 1, 0) if layer == 1 else native.final_norm(kind) if layer == 6 else
                      native.layer(kind, layer - 2, 1, 0) if layer < 6 else
                      {} if native.model.tied else {"lm_head.weight": native.padded(kind, "head.weight", 1)})
            for name, tensor in params.items():
                folder = f"{step}/zero/" + ("tied_modules.embed." if layer == 1 else f"{layer}.") + name
                os.makedirs(folder, exist_ok=True)
                out = {"param": tensor, "cat_dim": 0}
                if name in ("word_embeddings.weight", "lm_head.weight"):
                    out = {"param": tensor[:VOCABULARY].clone(), "cat_dim": 0, "vocab_tensor": True}
                torch.save(out, f"{folder}/{file}.pt")
                torch.save(torch.tensor(float(STEP)), folder + "/step.pt")
    dtype = native.kinds["weight"]["embedding.word.weight"].dtype
    args = args_of(native, 1, 1, None, "deepspeed")
    args.vocab_size, args.params_dtype = VOCABULARY, dtype
    torch.save({"args": args, "iteration": STEP, "checkpoint_version": 3.0}, f"{step}/mp_rank_00_model_states.pt")
    with open(directory + "/latest_universal", "w", encoding="ascii") as file:
        file.write(f"global_step{STEP}_universal")


def write_zero(native, step, layers, names, mp_rank, sizes, bf16):
    """Writes the file of a model-parallel rank, and the flat partitions of its data-parallel ranks."""
    tp, pp, dp = sizes
    shapes, flats = [], []
    for decay in (True, False):
        group = [(layer, name) for layer, name in names if decays(name, layers["weight"][layer][name])]
        group = group if decay else [key for key in names if key not in group]
        full = {key: ("tied_modules.embed." if key[0] == 1 else f"{key[0]}.") + key[1] for key in group}
        shapes.append(collections.OrderedDict((full[key], layers["weight"][key[0]][key[1]].shape) for key in group))
        flats.append({kind: torch.cat([layers[kind][layer][name].flatten() for layer, name in group] or [torch.zeros(0)])
                      for kind in native.kinds if kind != "weight"})
    client = {"args": args_of(native, tp, pp, None, "deepspeed"), "checkpoint_version": 3.0, "iteration": STEP,
              "checkpoint_info": {"padded_vocab_size": -(-VOCABULARY // (8 * tp)) * 8 * tp,
                                  "original_vocab_size": VOCABULARY}, **rng()}
    torch.save({"module": None, "param_shapes": shapes, "dp_world_size": dp, "mp_world_size": tp, "global_steps": STEP,
                "skipped_steps": 0, "ds_config": {"bf16": {"enabled": bf16}}, "ds_version": "0.9", **client},
               f"{step}/mp_rank_{mp_rank:02d}_model_states.pt")
    for d in range(dp):
        masters, state, mappings = [], {}, []
        for number, (shape, flat) in enumerate(zip(shapes, flats)):
            n = flat["master"].numel()
            size = -(-n // (2 * dp)) * 2
            begin, end = size * d, min(size * (d + 1), n)
            padding = size - max(end - begin, 0) if bf16 else 0
            cut = lambda tensor: torch.cat([tensor[begin:max(end, begin)], torch.zeros(padding)])
            masters.append(cut(flat["master"]))
            state[number] = {"step": STEP, "exp_avg": cut(flat["exp_avg"]), "exp_avg_sq": cut(flat["exp_avg_sq"])}
            at, mapping = 0, collections.OrderedDict()
            for name, dims in shape.items():
                low, high = max(at, begin), min(at + dims.numel(), end)
                if low < high:
                    mapping[name] = fragment_address(numel=high - low, start=low - begin)
                at += dims.numel()
            mappings.append(mapping)
        out = {"single_partition_of_fp32_groups": masters, "partition_count": [dp, dp], "ds_version": "0.9"}
        if bf16:
            out.update(base_optimizer_state={"state": state, "param_groups": [{"step": STEP, "params": [0]}]},
                       param_slice_mappings=mappings, clip_grad=1.0)
        else:
            out.update(base_optimizer_state=[state[0], state[1]], loss_scaler=DynamicLossScaler(), overflow=False,
                       zero_stage=ZeroStageEnum.optimizer_states)
        prefix = "bf16_" if bf16 else ""
        torch.save({"optimizer_state_dict": out, "ds_version": "0.9"},
                   f"{step}/{prefix}zero_pp_rank_{d}_mp_rank_{mp_rank:02d}_optim_states.pt")


def train(model, name, iterations, *more):
    live.run(live.tool("lm-train"), *COMMON, *model.flags.split(), "--train-iters", str(iterations), "--save", name, *more,
             stderr=subprocess.DEVNULL)


def check(model, name, *flags):
    imported = name + "-native"
    live.run(live.tool("lm-convert"), name, imported, "--quiet", "--check", *flags, stderr=subprocess.DEVNULL)
    live.run(live.tool("lm-ckpt"), "diff", model.name, imported)
    shutil.rmtree(name)
    return imported


def check_drift(model, native):
    """Copies of a replicated tensor that differ between tensor ranks are reported."""
    name = model.name + "-drift"
    write_deepspeed(native, name, 2, 1, 1, True)
    path = f"{name}/global_step{STEP}/layer_04-model_01-model_states.pt"
    tensors = torch.load(path)
    tensors["input_layernorm.weight"] = tensors["input_layernorm.weight"] + 0.5
    torch.save(tensors, path)
    done = subprocess.run([live.tool("lm-convert"), name, name + "-native"], stderr=subprocess.PIPE, text=True)
    if done.returncode or "number of tensors whose copies on several ranks differ: 1, by up to" not in done.stderr:
        live.fail(f"{name}: {done.returncode} {done.stderr}")
    live.run(live.tool("lm-ckpt"), "diff", model.name, name + "-native")
    done = subprocess.run([live.tool("lm-ckpt"), "verify", name, "--quiet"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 1 or "attention.norm.weight (weight): the copies of the ranks differ" not in done.stdout or \
            "1 problem" not in done.stdout:
        live.fail(f"verify {name}: {done.returncode} {done.stdout}")
    print(f"{model.name}: a copy that drifted is reported")


def check_exports(model, native, whole):
    """Exports load in torch, have the tensors that Megatron expects, and come back with all bits."""
    for target in ("megatron-lm", "megatron-deepspeed"):
        for tp, pp in ((1, 1), (2, 2), (whole, 4)):
            name = f"{model.name}-to-{target}-{tp}-{pp}"
            live.run(live.tool("lm-convert"), model.name, name, "--to", target, "--tensor-model-parallel-size", str(tp),
                     "--pipeline-model-parallel-size", str(pp), "--quiet",
                     *(("--transformer-impl", "classic") if target == "megatron-lm" else ()), stderr=subprocess.DEVNULL)
            for file in glob.glob(name + "/**/*.pt", recursive=True):
                torch.load(file)
            if target == "megatron-lm":
                last = f"{name}/iter_{STEP:07d}/mp_rank_{tp - 1:02d}" + (f"_{pp - 1:03d}" if pp > 1 else "")
                top = torch.load(last + "/model_optim_rng.pt")
                got = top["model"]["language_model"]["encoder"][f"layers.{4 // pp - 1}.self_attention.query_key_value.weight"]
                wanted = native.layer("weight", 3, tp, tp - 1)["self_attention.query_key_value.weight"]
                if not torch.equal(got, wanted) or top["iteration"] != STEP or top["args"].num_layers != 4:
                    live.fail(f"{name}: another model")
            if target == "megatron-deepspeed" and "master" not in native.kinds:
                shutil.rmtree(name)
                continue
            check(model, name)
    print(f"{model.name}: exports to Megatron-LM and Megatron-DeepSpeed, imported again: all bits")


def check_model(model):
    train(model, model.name, STEP)
    native = Native(model, model.name)
    whole = 4 if model.groups % 4 == 0 else model.groups
    cut = ("--vocab-size", str(VOCABULARY))
    for tp, pp, virtual, version in ((1, 1, None, 3.0), (2, 2, None, 3.0), (whole, 4, None, 2.0), (2, 2, 2, 3.0),
                                     (1, 4, None, 0 if model.groups == model.heads else 3.0),
                                     (2, 1, None, 1.0 if model.groups == model.heads else 3.0)):
        name = f"{model.name}-lm-{tp}-{pp}-{virtual}-{version}"
        write_megatron_lm(native, name, tp, pp, virtual, version)
        imported = check(model, name, *cut)
    print(f"{model.name}: Megatron-LM, six layouts: all bits")
    if "master" in native.kinds:
        for tp, pp, dp, bigscience in ((1, 1, 1, True), (2, 2, 2, True), (4, 1, 3, False), (1, 4, 12, True), (2, 4, 2, False)):
            name = f"{model.name}-ds-{tp}-{pp}-{dp}"
            write_deepspeed(native, name, tp, pp, dp, bigscience)
            imported = check(model, name)
        print(f"{model.name}: Megatron-DeepSpeed, five layouts: all bits")
        check_drift(model, native)
        write_universal(native, model.name + "-universal")
        check(model, model.name + "-universal")
        print(f"{model.name}: DeepSpeed universal: all bits")
    check_exports(model, native, whole)
    # The next steps are those of the run that was not interrupted.
    train(model, model.name + "-on", 6, "--load", model.name)
    train(model, model.name + "-imported-on", 6, "--load", imported)
    live.run(live.tool("lm-ckpt"), "diff", model.name + "-on", model.name + "-imported-on")
    print(f"{model.name}: two more steps from the import: all bits")


def preprocess_some(corpus):
    """Writes the dataset some_text_document from the first 60 documents of `corpus`."""
    with open(corpus, encoding="utf-8") as lines, open("some.jsonl", "w", encoding="utf-8") as some:
        some.writelines(line for _, line in zip(range(60), lines))
    live.run(live.tool("lm-preprocess"), "--input", "some.jsonl", "--output-prefix", "some", "--append-eod",
             "--tokenizer-type", "ByteTokenizer", "--quiet")


def main():
    torch.set_num_threads(1)
    corpus = live.corpus()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        preprocess_some(corpus)
        for model in (GPT2, LLAMA, BLOOM, HALF):
            check_model(model)


if __name__ == "__main__":
    main()
