#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_hf.py [DIR]: writes hf-styles.json and hf-ids.jsonl into DIR (default: the script's own), with the ids that Hugging Face
tokenizers gives for difficult text with the pretokenizers, added tokens and templates of several models over GPT-2's vocabulary
and merges. Needs the package tokenizers.
"""
import json
import os
import random
import sys

import tokenizers

here = os.path.dirname(os.path.abspath(__file__))
share = os.path.join(here, "../../../share/tokenizers/gpt2")
out_dir = sys.argv[1] if len(sys.argv) > 1 else here
byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"


def split(pattern):
    isolated = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [isolated, dict(byte_level, use_regex=False)]}


def added(content, token_id, normalized=False, **flags):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": normalized,
            "special": not normalized, **flags}


def sequence(*normalizers):
    return {"type": "Sequence", "normalizers": list(normalizers)}


bos = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
       "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [50257], "tokens": ["<s>"]}}}
end = added("<|endoftext|>", 50256)
styles = {
    "gpt2": {"added_tokens": [end], "pre_tokenizer": byte_level, "post_processor": byte_level},
    "bloom": {"added_tokens": [end, added("</s>", 50257)], "pre_tokenizer": split(BLOOM)},
    "llama3": {"added_tokens": [end, added("<s>", 50257), added("<|", 50258), added("the own", 50259, True)],
               "pre_tokenizer": split(LLAMA % "{1,3}"), "post_processor": {"type": "Sequence", "processors": [byte_level, bos]},
               "ignore_merges": True},
    "qwen2": {"added_tokens": [end], "pre_tokenizer": split(LLAMA % ""), "normalizer": {"type": "NFC"}},
    "starcoder": {"added_tokens": [end],
                  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]}},
    "prefix": {"added_tokens": [end], "pre_tokenizer": dict(byte_level, add_prefix_space=True),
               "post_processor": {"type": "RobertaProcessing", "sep": ["!", 0], "cls": ['"', 1], "trim_offsets": True, "add_prefix_space": True}},
    "flags": {"added_tokens": [added("<|endoftext|>", 50256, lstrip=True, rstrip=True), added("of", 1659, True, single_word=True),
                               added("<|", 50257, rstrip=True), added("Ж", 50258, True, lstrip=True), added("  ", 50259)],
              "normalizer": sequence({"type": "NFKD"}, {"type": "Lowercase"}, {"type": "Replace", "pattern": {"String": "re"}, "content": "'ll_"}),
              "pre_tokenizer": byte_level},
    "edits": {"added_tokens": [end], "pre_tokenizer": byte_level,
              "normalizer": sequence({"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "NFD"}, {"type": "StripAccents"},
                                     {"type": "NFKC"}, {"type": "Prepend", "prepend": " ("})},
}
with open(os.path.join(out_dir, "hf-styles.json"), "w", encoding="utf-8") as out:
    json.dump(styles, out, indent=1)
    out.write("\n")

vocab = json.load(open(os.path.join(share, "vocab.json"), encoding="utf-8"))
merges = open(os.path.join(share, "merges.txt"), encoding="utf-8").read().split("\n")[1:-1]
rng = random.Random(3)
plain = [" ", "  ", "\n", "\r\n", "\t", "'", "'s", "'S", "'Re", "'lL", "'ſ", "a", "the", " of", "Z", "1", "2345", ".", "!?", "_", "(", ")",
         "|", ",", "…", "。", "[", "]", "<|endoftext|>", "<|", "</s>", "the own"]
wide = [chr(c) for c in (0, 0x1C, 0x85, 0xA0, 0xB2, 0xC9, 0xE9, 0x130, 0x301, 0x323, 0x1100, 0x1161, 0x11A8, 0x212B, 0xFB01, 0x416, 0x5D0, 0x627, 0x60C, 0x660, 0x964, 0x94D, 0x6D4, 0x1680, 0x180E,
                         0x2003, 0x200B, 0x200D, 0x2019, 0x2028, 0x2167, 0x3000, 0x3001, 0x3042, 0x4E00, 0xAC00, 0xFEFF, 0xFF0C, 0x1D7CE, 0x1F600)]
texts = ["", "Hello world", "I'LL  don't\r\n\r\n  x 12345 (yes)!\n\n", "trailing   ", " \n \n x", "a,b .c ?! ,d"]
for i in range(60):
    items = plain if i % 2 else plain + wide + ["of"]
    texts.append("".join(rng.choice(items) * (rng.randrange(2, 9) if rng.random() < 0.1 else 1) for _ in range(rng.randrange(1, 40))))
with open(os.path.join(out_dir, "hf-ids.jsonl"), "w", encoding="utf-8") as out:
    for name, style in styles.items():
        model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                 "fuse_unk": False, "byte_fallback": False, "ignore_merges": style.get("ignore_merges", False), "vocab": vocab,
                 "merges": merges}
        whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": style["added_tokens"],
                 "normalizer": style.get("normalizer"),
                 "pre_tokenizer": style["pre_tokenizer"], "post_processor": style.get("post_processor"), "decoder": None, "model": model}
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(whole))
        for text in texts:
            out.write(json.dumps({"style": name, "text": text, "ids": tokenizer.encode(text).ids}) + "\n")
