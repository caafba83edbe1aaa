#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--data-order megatron gives the samples of megatron-core's GPTDataset and BlendedDataset, token by token."""
import inspect
import json
import logging
import math
import os
import random
import subprocess
import tempfile

import live

logging.disable(logging.WARNING)
try:
    import numpy as np
    from megatron.core.datasets import blended_megatron_dataset_builder as builder_module
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
    from megatron.core.datasets.megatron_tokenizer import MegatronTokenizer
    from megatron.core.datasets.utils import get_blend_from_list
    import torch
except Exception as error:  # a broken installation is a reason to skip
    live.skip(f"megatron-core cannot be imported: {error}")

N_CONFIGURATIONS = 26


def newer_sizes(weights, targets):
    """Returns the number of samples of each dataset of a blend. Megatron rounds it up twice since 2024. It rounded once before."""
    return [[math.ceil(math.ceil(target * weight) * 1.005) for target in targets] for weight in weights]


if "surplus" not in inspect.signature(builder_module._get_size_per_split_per_dataset).parameters:
    builder_module._get_size_per_split_per_dataset = newer_sizes


class Tokenizer(MegatronTokenizer):
    def __init__(self):
        super().__init__("none")

    def tokenize(self, text):
        return []

    vocab = inv_vocab = {}
    vocab_size = 60000
    eod = 59999
    unique_identifiers = {"class": "Tokenizer"}


def write_dataset(prefix, rng):
    """Some documents (an empty split would be an endless loop in megatron-core); each token encodes its place."""
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=np.uint16)
    low, high = rng.choice([(0, 4), (1, 40), (0, 200), (30, 31)])
    at = 0
    for _ in range(rng.randint(60, 400)):
        length = rng.randint(low, high)
        builder.add_document(torch.tensor([(at + k) % 59000 for k in range(length)], dtype=torch.int64), [length])
        at += length
    builder.finalize(prefix + ".idx")
    return at


def theirs(case):
    config = GPTDatasetConfig(
        random_seed=case["seed"], sequence_length=case["seq_length"], blend=get_blend_from_list(case["data_path"]), split=case["split"],
        path_to_cache=None, tokenizer=Tokenizer(), reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False)
    sizes = [case["train_samples"], case["valid_samples"], 0]
    builder = BlendedMegatronDatasetBuilder(GPTDataset, sizes, lambda: True, config)
    train, valid, _ = builder.build()
    rows = []
    for dataset, n in ((train, sizes[0]), (valid, sizes[1])):
        if dataset is None or n == 0:
            continue
        for k in range(n):
            sample = dataset[k]
            rows.append(np.append(sample["tokens"].numpy(), sample["labels"].numpy()[-1]))
    return np.concatenate(rows).astype(np.int32)


def ours(case, folder):
    config, out = os.path.join(folder, "config.json"), os.path.join(folder, "samples")
    with open(config, "w") as file:
        json.dump(case, file)
    program = os.path.join(live.BUILD, "tests", "test_data")
    done = subprocess.run([program, "[.live]"], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "LM_TEST_CONFIG": config, "LM_TEST_OUT": out})
    if done.returncode:
        live.fail(f"{case}:\n{done.stdout}")
    return np.fromfile(out, dtype=np.int32)


def make_case(number, folder, rng):
    n_datasets = rng.choice([1, 1, 2, 3, 9]) if number >= 10 else 1
    prefixes = [os.path.join(folder, f"{number}-{d}") for d in range(n_datasets)]
    tokens = [write_dataset(prefix, rng) for prefix in prefixes]
    weights = [round(rng.uniform(0.1, 1), 3) for _ in prefixes] if n_datasets > 1 or rng.random() < 0.2 else None
    seq_length = rng.choice([2, 7, 16, 33])
    epochs = rng.choice([0.3, 1.0, 1.5, 1.85, 2.0, 2.7, 7.3])
    path = prefixes if weights is None else [str(word) for pair in zip(weights, prefixes) for word in pair]
    return {"order": "megatron", "data_path": path, "split": rng.choice(["90,10,0", "7,3", "100,0,0", "0.5,0.5"]),
            "seq_length": seq_length, "seed": rng.choice([1234, 42, 0, 2**32 - 1]),
            "train_samples": max(1, int(epochs * sum(tokens) / seq_length)), "valid_samples": 0}


def main():
    rng = random.Random(4)
    n_samples = n_blends = n_skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(N_CONFIGURATIONS):
            case = make_case(number, folder, rng)
            try:
                expected = theirs(case)
            except (AssertionError, IndexError):  # too little data for megatron-core's asserts: nothing to compare
                n_skipped += 1
                continue
            got = ours(case, folder)
            if not np.array_equal(got, expected):
                live.fail(f"{case}: {len(got)} tokens, {len(expected)} expected, first difference at "
                          f"{np.argmax(got[:len(expected)] != expected[:len(got)])}")
            n_samples += case["train_samples"]
            n_blends += len(case["data_path"]) > 1
    print(f"{N_CONFIGURATIONS - n_skipped} configurations, {n_blends} of them blends, {n_samples} samples equal; {n_skipped} that megatron-core itself refuses")
    if N_CONFIGURATIONS - n_skipped < 20:
        live.fail("fewer than 20 configurations could be compared")


if __name__ == "__main__":
    main()
