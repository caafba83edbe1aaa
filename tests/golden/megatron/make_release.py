#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_release.py FOLDER: writes FOLDER/release.tar.xz, a small GPT-2 of transformers and the same weights in the layouts of
Megatron-LM's releases of 2019 to 2021, which store no arguments (README.md)."""
import os
import subprocess
import sys
import tempfile

import torch
import transformers

LAYERS, HIDDEN, HEADS, POSITIONS, VOCABULARY, PADDED = 2, 16, 4, 12, 29, 32
# name: checkpoint_version (None: not stored), tensor ranks, stages, file format of PyTorch before 1.6
FORMS = {"version0": (None, 1, 1, True), "version0-ranks": (0, 2, 1, False), "version1": (1.0, 2, 1, False),
         "version2": (2.0, 1, 2, False)}


def gpt2(layers=LAYERS, hidden=HIDDEN, heads=HEADS, positions=POSITIONS, vocabulary=VOCABULARY):
    torch.manual_seed(7)
    config = transformers.GPT2Config(n_layer=layers, n_embd=hidden, n_head=heads, n_positions=positions,
                                     vocab_size=vocabulary, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.half().float()


def fused(x, heads, version, tp, rank):
    """The rows of query, key and value, [3 H D, ...], in the order of a version, of one tensor rank."""
    x = x.reshape(3, heads, -1, *x.shape[1:]).chunk(tp, 1)[rank]  # [3, heads, head size, ...]
    if version == 1:
        x = x.permute(1, 2, 0, *range(3, x.dim()))
    elif version == 2:
        x = x.transpose(0, 1)
    return x.reshape(-1, *x.shape[3:])


def save(model, directory, version, tp, pp, old_format):
    own, config = model.state_dict(), model.config
    rows = -(-config.vocab_size // (8 * tp)) * 8 * tp
    words = torch.cat([own["transformer.wte.weight"], torch.full((rows - config.vocab_size, config.n_embd), 7.0)])
    in_stage = config.n_layer // pp
    for stage in range(pp):
        for rank in range(tp):
            layers = {}
            for local in range(in_stage):
                for name, theirs, cut in (("input_layernorm", "ln_1", None), ("attention.query_key_value", "attn.c_attn", "qkv"),
                                          ("attention.dense", "attn.c_proj", 1), ("post_attention_layernorm", "ln_2", None),
                                          ("mlp.dense_h_to_4h", "mlp.c_fc", 0), ("mlp.dense_4h_to_h", "mlp.c_proj", 1)):
                    for kind in ("weight", "bias"):
                        x = own[f"transformer.h.{stage * in_stage + local}.{theirs}.{kind}"]
                        x = x.t() if x.dim() == 2 else x
                        if cut == "qkv":
                            x = fused(x, config.n_head, version or 0, tp, rank)
                        elif cut is not None and x.dim() > cut:
                            x = x.chunk(tp, cut)[rank]
                        layers[f"layers.{local}.{name}.{kind}"] = x.contiguous().half()
            language = {"transformer": layers}
            if stage == 0:
                language["embedding"] = {"word_embeddings": {"weight": words.chunk(tp)[rank].half()},
                                         "position_embeddings": {"weight": own["transformer.wpe.weight"].half()}}
            if stage == pp - 1:
                for kind in ("weight", "bias"):
                    layers["final_layernorm." + kind] = own["transformer.ln_f." + kind].half()
            top = {"iteration": 0, "model": {"language_model": language}}
            if stage == pp - 1 and pp > 1:
                top["model"]["word_embeddings_for_head"] = {"weight": words.chunk(tp)[rank].half()}
            if version is not None:
                top["checkpoint_version"] = version
            folder = f"{directory}/release/mp_rank_{rank:02}" + (f"_{stage:03}" if pp > 1 else "")
            os.makedirs(folder)
            torch.save(top, folder + "/model_optim_rng.pt", _use_new_zipfile_serialization=not old_format)
    with open(directory + "/latest_checkpointed_iteration.txt", "w", encoding="utf-8") as file:
        file.write("release")


def main():
    folder = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        model = gpt2()
        model.half().save_pretrained("release-hf")
        model.float()
        for name, form in FORMS.items():
            save(model, "release-" + name, *form)
        subprocess.run(["tar", "--sort=name", "--mtime=2024-01-01", "--owner=0", "--group=0", "-cJf", folder + "/release.tar.xz",
                        *sorted(os.listdir())], check=True)


if __name__ == "__main__":
    main()
