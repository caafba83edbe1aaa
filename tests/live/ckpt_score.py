#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lm-ckpt score against transformers in fp32: log-probabilities within 1e-4, the same greedy matches, for documents of
several windows, requests whose context is too long, and questions."""
import json
import os
import random
import subprocess
import tempfile

import torch
import transformers

import live

CONTEXT, VOCABULARY, TOLERANCE = 96, 503, 1e-4


def models():
    gpt2 = transformers.GPT2Config(n_layer=3, n_embd=96, n_head=6, n_positions=CONTEXT, vocab_size=VOCABULARY)
    bloom = transformers.BloomConfig(n_layer=3, hidden_size=96, n_head=6, vocab_size=VOCABULARY)
    bloom.seq_length = CONTEXT
    llama = dict(num_hidden_layers=3, hidden_size=96, intermediate_size=160, num_attention_heads=6, num_key_value_heads=2,
                 max_position_embeddings=CONTEXT, vocab_size=VOCABULARY)
    for config in gpt2, bloom, transformers.LlamaConfig(**llama), transformers.Qwen2Config(**llama):
        yield config.model_type, transformers.AutoModelForCausalLM.from_config(config)


def spread(model):
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(torch.randn_like(tensor) * 0.1)
    return model.eval()


def theirs(model, context, continuation):
    """The log-probability of each token of the continuation, and whether all are the most probable ones."""
    ids = (context + continuation)[-(CONTEXT + 1):]
    with torch.no_grad():
        logits = torch.log_softmax(model(torch.tensor([ids[:-1]])).logits[0].float(), -1)[-len(continuation):]
    target = torch.tensor(continuation)
    return logits.gather(1, target[:, None])[:, 0].tolist(), bool((logits.argmax(-1) == target).all())


def items():
    draw = random.Random(3)
    ids = lambda n: [draw.randrange(VOCABULARY) for _ in range(n)]  # noqa: E731
    for n in (1, 2, 9, 40, CONTEXT - 1, CONTEXT):
        yield {"context": ids(5), "continuation": ids(n)}
        yield {"context": ids(CONTEXT + 20), "continuation": ids(min(n, 7))}
    for n in (1, 20, CONTEXT, 2 * CONTEXT):
        yield {"context": ids(n), "choices": [ids(1), ids(3), ids(1), ids(12)], "label": 2}


def check(name, path, model, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([live.tool("lm-ckpt"), "score", path, "-", "-q"], input=text, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        live.fail(f"score {path}: exit {done.returncode}")
    results = [json.loads(line) for line in done.stdout.splitlines()]
    largest = n = 0
    for line, result in zip(lines, results):
        for continuation, got in zip(line.get("choices", [line.get("continuation")]), result.get("choices", [result])):
            each, greedy = theirs(model, line["context"], continuation)
            largest = max(largest, abs(sum(each) - got["log_probability"]) / len(continuation))
            n += len(continuation)
            if greedy != got["greedy"] or got["tokens"] != len(continuation):
                live.fail(f"{name}: {line}: {got}")
    if len(results) != len(lines) + 1 or results[-1]["kind"] != "total":
        live.fail(f"{name}: {len(results)} lines")
    print(f"{name}: {n} tokens, largest difference of a token's log-probability {largest:.1e}")
    if largest > TOLERANCE:
        live.fail("the log-probabilities differ")


def check_documents(folder, path, model):
    """Documents of up to three windows in a dataset."""
    import numpy as np
    prefix = os.path.join(folder, "data")
    draw = random.Random(4)
    documents = [[draw.randrange(256) for _ in range(n)] for n in (1, 30, CONTEXT, CONTEXT + 1, 3 * CONTEXT - 5)]
    with open(prefix + ".jsonl", "w", encoding="utf-8") as file:
        for ids in documents:
            file.write(json.dumps({"text": "".join(chr(32 + i % 90) for i in ids)}) + "\n")
    live.run(live.tool("lm-preprocess"), "--input", prefix + ".jsonl", "--output-prefix", prefix, "--tokenizer-type",
             "ByteTokenizer", "--append-eod", "-q")
    tokens = np.fromfile(prefix + "_text_document.bin", np.uint16).astype(int).tolist()
    out = live.run(live.tool("lm-ckpt"), "score", path, prefix + "_text_document", "--tokenizer-type", "ByteTokenizer", "-q")
    results = [json.loads(line) for line in out.splitlines()]
    largest, begin, total = 0, 0, 0.0
    for ids, result in zip(documents, results):
        text = tokens[begin:begin + len(ids) + 1]
        begin += len(text)
        wanted, whole = 0.0, [256] + text
        for at in range(0, len(text), CONTEXT):
            window = text[at:at + CONTEXT]
            before = whole[max(0, at + len(window) - CONTEXT):at + 1]
            wanted += sum(theirs(model, before, window)[0])
        total += wanted
        largest = max(largest, abs(wanted - result["log_probability"]) / len(text))
        if (result["tokens"], result["bytes"]) != (len(text), len(ids)):
            live.fail(f"document: {result}")
    bits = -total / 0.6931471805599453 / sum(map(len, documents))
    print(f"documents: largest difference of a token {largest:.1e}, {results[-1]['bits_per_byte']:.6f} bits per byte")
    if largest > TOLERANCE or abs(bits - results[-1]["bits_per_byte"]) > TOLERANCE:
        live.fail(f"documents differ: {bits} bits per byte, {results[-1]}")


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    lines = list(items())
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models():
            spread(model)
            hf, native = os.path.join(folder, name), os.path.join(folder, name + "-native")
            model.save_pretrained(hf)
            live.run(live.tool("lm-convert"), hf, native, "--to", "native", "-q")
            check(name, hf, model, lines)
            check(name + ", native", native, model, lines)
            if name == "gpt2":
                model.config.eos_token_id = 256
                model.save_pretrained(hf)
                check_documents(folder, hf, model)


main()
