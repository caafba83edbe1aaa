#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares every id of every document of lm-preprocess with Hugging Face tokenizers; Megatron's reader reads its files, and
Megatron's writer writes the same bytes from the same ids."""
import filecmp
import glob
import json
import os
import tempfile

import numpy
import tokenizers
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

import live

EOD = 50256


def hugging_face():
    found = glob.glob(os.path.join(live.ROOT, "share", "**", "vocab.json"), recursive=True)
    if not found:
        live.fail("no vocab.json under share/")
    return tokenizers.ByteLevelBPETokenizer(found[0], os.path.join(os.path.dirname(found[0]), "merges.txt"))


def check_file(path, referee):
    texts = [json.loads(line)["text"] for line in open(path, encoding="utf-8")]
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "x")
        live.run(live.tool("lm-preprocess"), "--input", path, "--output-prefix", prefix, "--append-eod", "--keep-empty")
        dataset = IndexedDataset(prefix + "_text_document")
        bounds = dataset.document_indices.tolist()
        if len(bounds) != len(texts) + 1:
            live.fail(f"{path}: {len(bounds) - 1} documents instead of {len(texts)}")
        n_tokens = 0
        theirs = os.path.join(folder, "theirs")
        builder = IndexedDatasetBuilder(theirs + ".bin", dtype=numpy.uint16)  # preprocess_data.py's type for 50,257 ids
        for i, encoding in enumerate(referee.encode_batch(texts)):
            # An empty document becomes a document without a sequence.
            ours = [dataset[sequence].tolist() for sequence in range(bounds[i], bounds[i + 1])]
            if ours != ([encoding.ids + [EOD]] if texts[i] else []):
                live.fail(f"{path}: document {i}: {texts[i][:60]!r}...")
            n_tokens += sum(map(len, ours))
            tokens = encoding.ids + [EOD] if texts[i] else []
            builder.add_document(torch.tensor(tokens, dtype=torch.int64), [len(tokens)] if tokens else [])
        del dataset
        builder.finalize(theirs + ".idx")
        for suffix in (".bin", ".idx"):
            if not filecmp.cmp(theirs + suffix, prefix + "_text_document" + suffix, shallow=False):
                live.fail(f"{path}: Megatron's writer writes a different {suffix} from the same ids")
    print(f"{path}: {len(texts)} documents, {n_tokens} ids equal, .bin and .idx as Megatron writes them")


def main():
    referee = hugging_face()
    check_file(os.path.join(live.ROOT, "tests", "golden", "text", "gpt2-tokens.jsonl"), referee)
    check_file(live.corpus(), referee)


if __name__ == "__main__":
    main()
