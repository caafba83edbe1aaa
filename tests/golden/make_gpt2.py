#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_gpt2.py [DIR]: writes gpt2_tiny.safetensors and gpt2_odd.safetensors (README.md describes them).

The referee is transformers' GPT2LMHeadModel under PyTorch, on the CPU, in fp32 and once more in float64. Weights and
tokens come from numpy's MT19937, so that the same file comes out of any version of the libraries, up to rounding.
"""
import json
import os
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

CASES = {
    "gpt2_tiny": dict(n_layer=2, n_embd=24, n_head=4, n_inner=96, vocab_size=101, n_positions=16, batch=2, seed=1),
    "gpt2_odd": dict(n_layer=2, n_embd=40, n_head=5, n_inner=100, vocab_size=77, n_positions=13, batch=3, seed=2),
}
STEPS = 10
ADAM = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
WEIGHT_DECAY = 0.1
CLIP = 1.0
EOD = 0  # the token that ends a document


def make_model(case):
    shape = {k: v for k, v in case.items() if k not in ("batch", "seed")}
    config = transformers.GPT2Config(
        **shape, activation_function="gelu_new", layer_norm_epsilon=1e-5, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, tie_word_embeddings=True, bos_token_id=0, eos_token_id=0)
    config._attn_implementation = "eager"
    return transformers.GPT2LMHeadModel(config)


def make_weights(model, rng):
    """Draws weights large enough that attention is far from uniform and no bias, norm or gradient is trivially zero."""
    weights = {}
    for name, p in model.named_parameters():
        x = rng.standard_normal(tuple(p.shape))
        if ".ln_" in name and name.endswith("weight"):
            x = 1.0 + 0.2 * x
        elif name.endswith("bias"):
            x = 0.1 * x
        else:
            x = 0.15 * x
        weights[name] = (np.round(x * 4096) / 4096).astype(np.float32)
    return weights


def load_weights(model, weights):
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.from_numpy(weights[name]))


def forward(model, tokens):
    t = torch.from_numpy(tokens).long()
    logits = model(t[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), t[:, 1:].reshape(-1))
    return logits, loss


def documents_of(row):
    """Returns [begin, end) of the documents in a row of inputs: each ends after its EOD."""
    begin = 0
    for t, token in enumerate(row):
        if token == EOD or t + 1 == len(row):
            yield begin, t + 1
            begin = t + 1


def documents_loss(model, logits_of, tokens, reset_positions, reset_attention, mask_eod):
    """Returns the loss with Megatron's three flags. Documents that do not see each other are computed separately."""
    loss, n_counted = 0.0, 0
    for row in tokens:
        inputs, targets = row[:-1], torch.from_numpy(row[1:]).long()
        positions = np.arange(len(inputs))
        documents = list(documents_of(inputs))
        if reset_positions:
            for begin, end in documents:
                positions[begin:end] -= begin
        parts = documents if reset_attention else [(0, len(inputs))]
        logits = torch.cat([logits_of(model, inputs[a:b], positions[a:b]) for a, b in parts])
        counted = torch.from_numpy(inputs != EOD) if mask_eod else torch.ones(len(inputs), dtype=torch.bool)
        losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        loss = loss + losses[counted].sum()
        n_counted += int(counted.sum())
    return loss / n_counted


def documents(model, logits_of, tokens):
    """Returns the entries of rows of several documents, and the gradients with all flags, by name."""
    tokens = tokens.copy()
    length = tokens.shape[1] - 1
    for row, ends in zip(tokens, ((4, 9), (0, length - 1), (5, 6))):
        row[list(ends)] = EOD
    losses, norms = [], []
    for flags in range(8):
        model.zero_grad()
        loss = documents_loss(model, logits_of, tokens, flags & 1, flags & 2, flags & 4)
        loss.backward()
        losses.append(loss.item())
        norms.append(float(torch.cat([p.grad.flatten() for p in model.parameters()]).norm()))
    entries = {"documents.tokens": tokens, "documents.losses": np.array(losses, np.float32),
               "documents.grad_norms": np.array(norms, np.float32)}
    return entries, {name: p.grad.numpy().copy() for name, p in model.named_parameters()}


def logits_at(model, inputs, positions):
    """Returns the logits of one row, at these positions."""
    x, p = (torch.from_numpy(np.asarray(a)).long()[None] for a in (inputs, positions))
    return model(x, position_ids=p).logits[0]


def train(model, tokens):
    """Trains STEPS steps of AdamW; decay on matrices and embeddings, none on biases and norms."""
    decay = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [dict(params=decay, weight_decay=WEIGHT_DECAY), dict(params=plain, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, **ADAM)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        _, loss = forward(model, tokens[step])
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)))
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def make_case(case):
    rng = np.random.RandomState(case["seed"])
    model = make_model(case).eval()  # eval: there is no dropout anyway
    weights = make_weights(model, rng)
    tokens = rng.randint(0, case["vocab_size"], (STEPS, case["batch"], case["n_positions"] + 1)).astype(np.int32)
    out = {"tokens": tokens}
    for name, w in weights.items():
        out["weight." + name] = w

    load_weights(model, weights)
    logits, loss = forward(model, tokens[0])
    loss.backward()
    out["logits"] = logits.detach().numpy()
    out["loss"] = np.array([loss.item()], np.float32)
    for name, p in model.named_parameters():
        out["grad." + name] = p.grad.numpy().copy()
    entries, grads = documents(model, logits_at, tokens[1])
    out.update(entries)
    out.update({"documents.grad." + name: grad for name, grad in grads.items()})
    losses, norms = train(model, tokens)
    out["losses"] = np.array(losses, np.float32)
    out["grad_norms"] = np.array(norms, np.float32)

    load_weights(model, weights)
    losses, norms = train(model.double(), tokens)
    out["losses_f64"] = np.array(losses, np.float64)
    out["grad_norms_f64"] = np.array(norms, np.float64)
    return out


def metadata(case):
    config = {k: v for k, v in case.items() if k != "seed"}
    adam = dict(ADAM, weight_decay=WEIGHT_DECAY, clip_grad=CLIP, steps=STEPS)
    return {
        "format": "pt",
        "config": json.dumps(config),
        "optimizer": json.dumps(adam),
        "made_by": f"make_gpt2.py, torch {torch.__version__}, transformers {transformers.__version__}",
    }


def main():
    out_dir = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.set_num_threads(1)
    for name, case in CASES.items():
        tensors = make_case(case)
        save_file(tensors, os.path.join(out_dir, name + ".safetensors"), metadata(case))
        print(name, "losses", tensors["losses"], "norms", tensors["grad_norms"])
        print(name, "max |f32 - f64| of the losses", np.abs(tensors["losses"] - tensors["losses_f64"]).max())


if __name__ == "__main__":
    main()
