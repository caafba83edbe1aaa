#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_gpt2_tokens.py [DIR]: writes gpt2-tokens.jsonl into DIR (default: the script's own): 200 plain and difficult texts with
the ids that Hugging Face tokenizers gives them under GPT-2's vocabulary and merges. <|endoftext|> in a text is text like any other.
Needs the package tokenizers.
"""
import json
import os
import random
import sys

import tokenizers

here = os.path.dirname(os.path.abspath(__file__))
share = os.path.join(here, "../../../share/tokenizers/gpt2")
out = sys.argv[1] if len(sys.argv) > 1 else here

written = [
    "", " ", "  ", "\n", "\n\n", "\t", "\r\n", "a", " a", " a ", "\u00a0", "\ufeff", "\u200b", "\u2029", "\u0085", "\0", "\x1c \x1c",
    "Hello world", "Hello  world", "   leading", "trailing   ", "a   \n\n b", "hi\r\n\r\nyo", "a\t\tb", "  \u3000x", "end  ",
    "I'LL don't", "'S 's", "it''s '' ''' 'stuff", "'s's're'llama", "we've I'm he'd they'll you're 'tis", "DON'T I'M WE'RE",
    "1234567890", "3.14159 2,718 -40 1e-9 0x7f", " 12 34", "²½Ⅷ٣𝟎", "x² + y² = z²", "(a)[b]{c}<d>", "!?!?...", "__init__(self, *args)",
    "def f(x):\n    return x ** 2\n\n\nclass A:\n\tpass\n", "<p class=\"x\">&nbsp;</p>\n", "https://example.org/a?b=c&d=%20#e",
    "The quick brown fox jumps over the lazy dog.", "Voilà, un café à Zürich: naïve façade, œuvre, straße.",
    "Привет, мир! Ёлка.", "Ελληνικά γράμματα", "שלום עולם", "مرحبا بالعالم", "हिन्दी में लिखा", "ไทยไม่มีช่องว่าง", "日本語の文章です。漢字とカナ。",
    "中文没有空格，但有标点。", "한국어 문장입니다.", "e\u0301 vs é, a\u0308\u0327", "\u1100\u1161\u11a8", "👍🏽 👩\u200d💻 🇩🇪 😀😀😀", "𐐀𐐁𠀀\U0010ffff",
    "<|endoftext|>", "a<|endoftext|>b", "<|endoftext", "\ufffd\uffff\ufdd0", "a" * 100, " " * 100, "^" * 100, "😀" * 30, "'s" * 40, "\n" * 50,
    "一" * 60, "ab" * 60, "1" * 60, "=-" * 50, "supercalifragilisticexpialidocious antidisestablishmentarianism",
]
pieces = [" ", " ", "  ", "\n", "\r\n", "\t", "'s", "'S", "'re", "'ll", "'LL", "'d", "'", "a", "the", " of", " and", "Z", "word", "0", "12", "2024", ".",
          ",", "!?", "_", "-", "(", "}", "é", "ß", "и", "日", "本語", "한", "ह", "ع", "e\u0301", "\u0301", "\u00a0", "\u3000", "\u2009", "\u200d",
          "\u2028", "²", "Ⅷ", "😀", "𝟎", "\0", "\x1b", "\u180e", "<|", "|>", "Ġ", "ŉ", "ǆ", "ﬁ", "\U000e0041"]


def main():
    rng = random.Random(200)
    texts = list(written)
    while len(texts) < 200:
        n = rng.randrange(1, 60)
        texts.append("".join(rng.choice(pieces) * (rng.randrange(2, 12) if rng.random() < 0.06 else 1) for _ in range(n)))
    referee = tokenizers.ByteLevelBPETokenizer(os.path.join(share, "vocab.json"), os.path.join(share, "merges.txt"))
    with open(os.path.join(out, "gpt2-tokens.jsonl"), "w", encoding="utf-8") as lines:
        for text in texts:
            lines.write(json.dumps({"text": text, "ids": referee.encode(text).ids}) + "\n")


main()
