# SPDX-License-Identifier: Apache-2.0
"""GPT-2 and Llama as plain PyTorch modules, without dropout, for torch.compile: the models of train_pytorch.py on a GPU.

Attention gets is_causal and never a mask, which the flash kernels would refuse. tests/live/pytorch_peer.py
compares both with Hugging Face's.
"""
import torch
from torch import nn
from torch.nn import functional as F


class RmsNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps) * self.weight).to(x.dtype)


def rotary_angles(length, width, base=10000.0):
    """cos and sin [T, D] of RoPE with halves (Su et al. 2021, eq. 15; columns i and i + D/2 are a pair)."""
    frequency = base ** (-torch.arange(0, width, 2).float() / width)
    angles = torch.outer(torch.arange(length).float(), frequency).repeat(1, 2)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat((-second, first), dim=-1) * sin).to(x.dtype)


class Attention(nn.Module):
    """x [B, T, C]; q, k and v from one product."""

    def __init__(self, hidden, heads, groups, bias):
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, hidden // heads
        self.qkv = nn.Linear(hidden, (heads + 2 * groups) * self.width, bias=bias)
        self.out = nn.Linear(hidden, hidden, bias=bias)

    def forward(self, x, rotary):
        batch, length, hidden = x.shape
        sizes = [self.heads * self.width, self.groups * self.width, self.groups * self.width]
        q, k, v = (part.view(batch, length, -1, self.width).transpose(1, 2) for part in self.qkv(x).split(sizes, -1))
        if rotary is not None:
            q, k = rotate(q, *rotary), rotate(k, *rotary)
        shared = {"enable_gqa": True} if self.groups < self.heads else {}
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, **shared)
        return self.out(y.transpose(1, 2).reshape(batch, length, hidden))


class Mlp(nn.Module):
    def __init__(self, hidden, ffn):
        super().__init__()
        self.up = nn.Linear(hidden, ffn)
        self.down = nn.Linear(ffn, hidden)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class GatedMlp(nn.Module):
    """SwiGLU; gate and up from one product."""

    def __init__(self, hidden, ffn):
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self, norm, attention, mlp, hidden):
        super().__init__()
        self.norm_1, self.attention, self.norm_2, self.mlp = norm(hidden), attention, norm(hidden), mlp

    def forward(self, x, rotary):
        x = x + self.attention(self.norm_1(x), rotary)
        return x + self.mlp(self.norm_2(x))


class Model(nn.Module):
    """Logits [B, T, vocabulary] of tokens [B, T]."""

    def __init__(self, layers, norm, hidden, vocab, positions, tied, rotary):
        super().__init__()
        self.tokens = nn.Embedding(vocab, hidden)
        self.positions = nn.Embedding(positions, hidden) if rotary is None else None
        self.layers = nn.ModuleList(layers)
        self.norm = norm(hidden)
        self.head = nn.Linear(hidden, vocab, bias=False)
        if rotary is not None:
            self.register_buffer("cos", rotary[0], persistent=False)
            self.register_buffer("sin", rotary[1], persistent=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.tokens(tokens)
        rotary = None
        if self.positions is not None:
            x = x + self.positions.weight[:length]
        else:
            rotary = self.cos[:length], self.sin[:length]
        for layer in self.layers:
            x = layer(x, rotary)
        return self.head(self.norm(x))


def gpt2(layers, hidden, heads, vocab, positions):
    made = [Layer(nn.LayerNorm, Attention(hidden, heads, heads, bias=True), Mlp(hidden, 4 * hidden), hidden)
            for _ in range(layers)]
    return Model(made, nn.LayerNorm, hidden, vocab, positions, tied=True, rotary=None)


def llama(layers, hidden, heads, groups, ffn, vocab, positions):
    made = [Layer(RmsNorm, Attention(hidden, heads, groups, bias=False), GatedMlp(hidden, ffn), hidden)
            for _ in range(layers)]
    rotary = rotary_angles(positions, hidden // heads)
    return Model(made, RmsNorm, hidden, vocab, positions, tied=False, rotary=rotary)
