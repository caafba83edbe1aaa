#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lm-preprocess against Hugging Face tokenizers with every pretokenizer that it knows, over tables that Hugging Face's trainer makes
here: real text, random strings over a nasty alphabet, all code points, normal forms; and train-tokenizer against that trainer.

Environment: LM_LIVE_CORPUS, JSON Lines files (with colons between) to compare in full; LM_LIVE_STRINGS, number of random
strings for each style (default 4000); LM_LIVE_CODE_POINTS=all, also every CJK character, Hangul syllable and private code point
(else one in 29 of them) and more text; LM_LIVE_STYLES, names of some pretokenizers, with commas between.
"""
import json
import lzma
import os
import random
import tempfile
import unicodedata

os.environ.setdefault("RAYON_NUM_THREADS", "1")  # its threads would spin
import numpy as np
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import live

TOOL = live.tool("lm-preprocess")
LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES)
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
TIKTOKEN = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
DEEPSEEK_V3 = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
               " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
# Each style is one Split, or several, whose matches are isolated. A style X-removed has the rule of X, but its Split removes the
# text between the matches.
PATTERNS = {
    "bloom": [" ?[^(\\s|[.,!?…。，、।۔،])]+"],
    "llama3": [LLAMA % "{1,3}"],
    "llama3-removed": [LLAMA % "{1,3}"],
    "cl100k": [TIKTOKEN % "{1,3}"],
    "cl100k-one-digit": [TIKTOKEN % ""],
    "qwen2": [LLAMA % ""],
    "qwen3.5": [(LLAMA % "").replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")],
    "o200k": [CASED % (CONTRACTION, CONTRACTION, "{1,3}")],
    "o200k-removed": [CASED % (CONTRACTION, CONTRACTION, "{1,3}")],
    "tekken": [CASED % ("", "", "")],
    "deepseek-v3": [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK_V3],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"],
}
# The styles of train-tokenizer come first.
STYLES = ["gpt2", "llama3", "qwen2", "qwen3.5", "o200k", "tekken", "bloom", "starcoder", "digits", "deepseek-v3", "deepseek-coder", "falcon",
          "llama3-removed", "o200k-removed", "cl100k", "cl100k-one-digit"]
EVERY = os.environ.get("LM_LIVE_CODE_POINTS") == "all"
SLICE = 1_000_000 if EVERY else 400_000  # bytes of each corpus, unless LM_LIVE_CORPUS names others
FORMS = {"nfc": normalizers.NFC, "nfd": normalizers.NFD, "nfkc": normalizers.NFKC, "nfkd": normalizers.NFKD}


def pre_tokenizer(style):
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if style == "gpt2":
        return gpt2
    digits = pre_tokenizers.Digits(individual_digits=style in ("starcoder", "deepseek-coder"))
    if style in ("starcoder", "digits"):
        return pre_tokenizers.Sequence([digits, gpt2])
    if style == "falcon":
        triples = pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), behavior="isolated")
        return pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), gpt2, digits, triples])
    removed = style.endswith("-removed")
    parts = [pre_tokenizers.Split(Regex(pattern), behavior="removed" if removed else "isolated", invert=removed) for pattern in PATTERNS[style]]
    parts += [digits] * (style == "deepseek-coder")
    return pre_tokenizers.Sequence([*parts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def untrained(style):
    tokenizer = Tokenizer(models.BPE(ignore_merges=style == "llama3"))
    tokenizer.pre_tokenizer = pre_tokenizer(style)
    if style == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def trained(style, texts, vocab_size):
    tokenizer = untrained(style)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=2, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def read_texts(path, limit=None):
    opened = lzma.open(path, "rt", encoding="utf-8") if path.endswith(".xz") else open(path, encoding="utf-8")
    texts, n = [], 0
    with opened as lines:
        for line in lines:
            texts.append(json.loads(line)["text"])
            n += len(texts[-1].encode())
            if limit and n > limit:
                break
    return texts


def corpora():
    named = os.environ.get("LM_LIVE_CORPUS")
    if named:
        for path in named.split(":"):
            yield path, read_texts(path)
        return
    yield live.corpus(), read_texts(live.corpus(), SLICE)
    for shared in ("../shared", "../../shared"):
        path = os.path.join(live.ROOT, shared, "data", "multi.jsonl.xz")
        if os.path.exists(path):
            yield path, read_texts(path, SLICE)
            return
    print("skipped: no multilingual text: shared/data/multi.jsonl.xz does not exist")


def nasty_strings(n):
    rng = random.Random(20)
    spaces = [chr(c) for c in (*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)]
    words = ["'s", "'S", "'re", "'RE", "'ll", "'Ll", "'d", "'M", "'ve", "'ſ", "'", "''", "a", "the", " of", "Z", "é", "e\u0301", "ß", "Привет",
             "日本語", "한국어", "हिन्दी", "العربية", "ไทย", "1", "2024", "٣", "²", "Ⅷ", "½", ".", "!?", "...", "(", ")", "|", "[", "…", "。", "،",
             "_", "-", "=", "\r\n", "\n\n", "\0", "\x1c", "\x7f", "\u200b", "\u200d", "\ufeff", "\u180e", "\ufffd", "\uffff", "\U0010ffff",
             "👩\u200d💻", "🇩🇪", "👍🏽", "😀", "\u0301", "\u0327\u0301", "\u1100\u1161\u11a8", "𝟎", "𐐀", "𠀀", "<|endoftext|>", "<|", "ǆ", "ﬁ", "\u0345"]
    items = [spaces * 2 + words, words, spaces + ["a", "1", "'s", "."], ["'", "s", "S", "l", "L", "r", "e", " ", "\n", "1"]]
    for _ in range(n):
        pick = rng.choice(items)
        yield "".join(rng.choice(pick) * (rng.randrange(2, 40) if rng.random() < 0.05 else 1) for _ in range(rng.randrange(24)))


def knows_unicode_16():
    """Returns whether Hugging Face's tables are as new as lm-utils's; tokenizers before 0.21.2 have Unicode 14."""
    return len(pre_tokenizers.Split(Regex(r"\p{L}"), "removed").pre_tokenize_str("\u1c89")) == 0


def code_points(newest=knows_unicode_16()):
    """Returns all code points, or those of Unicode 14 where Hugging Face's tables are older."""
    for cp in range(0x110000):
        category = unicodedata.category(chr(cp))
        plain = category == "Co" or 0x3400 <= cp < 0xA000 or 0xAC00 <= cp < 0xD7A4 or cp > 0x20000
        # Numbers of Unicode 17, which Digits already knows, because it uses Rust's tables.
        future = 0x11DE0 <= cp < 0x11DEA or 0x16FF4 <= cp < 0x16FF7
        if category != "Cs" and not future and (newest or category != "Cn") and (not plain or EVERY or cp % 29 == 0):
            yield cp


def code_point_strings():
    group = []
    for cp in code_points():
        c = chr(cp)
        group.append(f"{c}a{c}1{c} {c}\n{c}'s.{c}{c}A{c}B{c}c/")
        if len(group) == 16:
            yield "".join(group)
            group = []
    yield "".join(group)


def our_ids(folder, model, texts):
    """Returns the ids of every text by lm-preprocess, and the texts that cat decodes."""
    source, prefix = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out")
    with open(source, "w", encoding="utf-8") as out:
        for i, text in enumerate(texts):
            out.write(json.dumps({"text": text}, ensure_ascii=i % 2 == 0) + "\n")
    live.run(TOOL, "--input", source, "--output-prefix", prefix, "--keep-empty", "--force", "--quiet", "--tokenizer-model", model)
    index = open(prefix + "_text_document.idx", "rb").read()
    assert index[:9] == b"MMIDIDX\x00\x00"
    dtype = {4: np.int32, 8: np.uint16}[index[17]]
    n_sequences, n_documents = np.frombuffer(index, np.int64, 2, 18)
    lengths = np.frombuffer(index, np.int32, n_sequences, 34)
    documents = np.frombuffer(index, np.int64, n_documents, 34 + 12 * n_sequences)
    if n_documents != len(texts) + 1:
        live.fail(f"{n_documents - 1} documents instead of {len(texts)}")
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])[documents]
    back = live.run(TOOL, "cat", prefix + "_text_document", "--tokenizer-model", model).split("\n")[:-1]
    return np.fromfile(prefix + "_text_document.bin", dtype), ends, [json.loads(line)["text"] for line in back]


def compare(folder, style, referee, model, what, texts):
    ids, ends, back = our_ids(folder, model, texts)
    n_bytes = 0
    for begin in range(0, len(texts), 10000):
        for i, encoding in enumerate(referee.encode_batch(texts[begin:begin + 10000], add_special_tokens=False), begin):
            if encoding.ids != ids[ends[i]:ends[i + 1]].tolist():
                live.fail(f"{style}: {what}: text {i}: {texts[i][:200]!r}: {encoding.ids[:40]}, not {ids[ends[i]:ends[i + 1]].tolist()[:40]}")
            n_bytes += len(texts[i].encode())
    if style != "qwen2" and back != texts:  # its normal form changes text
        at = next(i for i, text in enumerate(texts) if back[i] != text)
        live.fail(f"{style}: {what}: text {at} differs after cat: {texts[at][:200]!r}")
    print(f"{style}: {what}: {len(texts)} texts, {n_bytes / 1e6:.1f} MB, {len(ids)} ids equal", flush=True)


def check_normal_forms(folder):
    """Compares normalizers: over a vocabulary of bytes, ids are the bytes of the normalized text."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = os.path.join(folder, "bytes.json")
    texts = []
    for cp in code_points(newest=False):  # Lowercase has the tables of its Rust version
        c = chr(cp)
        texts.append(f"{c}|a{c}\u0301|{c}\u0323\u0307|\u1100{c}|{c}\u1161\u11a8")
    rng = random.Random(22)
    marks = [c for c in map(chr, range(0x300, 0x1E8D7)) if 0 < unicodedata.combining(c) and unicodedata.category(c) == "Mn" and
             unicodedata.ucd_3_2_0.category(c) != "Cn"]
    for _ in range(3000):
        texts.append("".join(rng.choice("aeéz\u1100가ﷺ") + "".join(rng.choices(marks, k=rng.choice([1, 2, 3, 5, 31, 33, 200])))
                             for _ in range(rng.randrange(1, 5))))
    for name, form in {**FORMS, "lowercase": normalizers.Lowercase, "strip accents": normalizers.StripAccents}.items():
        tokenizer = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(symbols)}, merges=[]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.normalizer = form()
        tokenizer.save(model)
        ids, ends, back = our_ids(folder, model, texts)
        different = [t for t, ours in zip(texts, back) if ours != form().normalize_str(t)]
        print(f"{name}: {len(texts) - len(different)} of {len(texts)} equal")
        if different:
            live.fail(f"{name}: U+{ord(different[0][0]):04X} and {len(different) - 1} others")


def check_without_merges(folder, texts):
    """Compares a model without merges. Its tokens are bytes, or, with ignore_merges, whole pre-tokens."""
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens += [f"{space}{letter}{n}" for space in ("", "Ġ") for letter in ("a", "the", "Z") for n in ("", *range(250))][1:]
    tokens = list(dict.fromkeys(tokens))
    model = os.path.join(folder, "no-merges.json")
    for ignore_merges in (False, True):
        referee = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[], ignore_merges=ignore_merges))
        referee.pre_tokenizer = pre_tokenizer("gpt2")
        referee.save(model)
        compare(folder, "no merges" + ", ignore_merges" * ignore_merges, referee, model, "random strings", texts)


def check_added_tokens(folder):
    """Compares tokens with random flags, most of them whitespace, in texts of little else. Where lstrip meets whitespace that
    an rstrip has consumed, Hugging Face may panic: those texts are skipped."""
    rng = random.Random(21)
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    contents = ["\n", "\n\n", " ", "\t", " \n", "x", "x ", "\u3000", "<s>"]
    n_texts = n_panics = 0
    for _ in range(60):
        tokenizer = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(symbols)}, merges=[]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        flags = [{flag: rng.random() < 0.4 for flag in ("lstrip", "rstrip", "single_word", "normalized")} for _ in contents]
        for content, flag in rng.sample(list(zip(contents, flags)), rng.randrange(1, 5)):
            tokenizer.add_tokens([AddedToken(content, **flag)])
        texts = []
        for _ in range(300):
            text = "".join(rng.choice(["\n", "\n", " ", "\t", "\u3000", "x", "a", "<s>"]) for _ in range(rng.randrange(12)))
            try:
                tokenizer.encode(text)
                texts.append(text)
            except BaseException as error:  # PanicException is not an Exception
                if type(error).__name__ != "PanicException":
                    raise
                n_panics += 1
        model = os.path.join(folder, "added.json")
        tokenizer.save(model)
        n_texts += len(texts)
        ids, ends, _ = our_ids(folder, model, texts)
        for i, text in enumerate(texts):
            theirs, ours = tokenizer.encode(text).ids, ids[ends[i]:ends[i + 1]].tolist()
            if theirs != ours:
                added = json.loads(tokenizer.to_str())["added_tokens"]
                live.fail(f"added tokens: {text!r}: {theirs}, not {ours}: {added}")
    print(f"added tokens with flags: {n_texts} texts equal; Hugging Face panicked at {n_panics}", flush=True)


def check_single_word(folder):
    """Compares a single_word token next to every character that Python's Unicode tables assign. They are older than the tables
    of lm-utils and of Hugging Face."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(symbols)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.add_tokens([AddedToken("<w>", single_word=True)])
    characters = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) not in ("Cn", "Co", "Cs")]
    texts = [text for c in characters for text in (c + "<w>", "<w>" + c)]
    model = os.path.join(folder, "single-word.json")
    tokenizer.save(model)
    ids, ends, _ = our_ids(folder, model, texts)
    for i, (text, theirs) in enumerate(zip(texts, tokenizer.encode_batch(texts))):
        if theirs.ids != ids[ends[i]:ends[i + 1]].tolist():
            live.fail(f"single_word: {text!r}: {theirs.ids}, not {ids[ends[i]:ends[i + 1]].tolist()}")
    print(f"single_word: next to {len(characters)} characters equal", flush=True)


def check_named_tokens(folder):
    """Compares special tokens that only tokenizer_config.json or special_tokens_map.json and the vocabulary have: transformers
    splits text at them."""
    from transformers import AutoTokenizer

    rng = random.Random(29)
    tokenizer = trained("gpt2", ["one two three <eos> [PAD]\n" * 3, "<eos>one <eos> [PAD]two\n"] * 5, 300)
    contents = ["<eos>", " two", "[PAD]", "one", "e"]
    data = json.loads(tokenizer.to_str())
    vocab = data["model"]["vocab"]
    for content in contents:
        vocab.setdefault(content, len(vocab))
    place = os.path.join(folder, "named")
    os.makedirs(place)
    model = os.path.join(place, "tokenizer.json")
    json.dump(data, open(model, "w", encoding="utf-8"))
    texts = ["".join(rng.choices(["one", " one", " ", "two", " two", "<eos>", "[PAD]", "e", "th"], k=rng.randrange(9))) for _ in range(500)]
    flags = "lstrip", "rstrip", "single_word", "normalized"
    for i in range(40):
        def token(content):
            return {"content": content, **{flag: rng.random() < 0.4 for flag in flags}} if rng.random() < 0.5 else content
        config, names = {"tokenizer_class": "PreTrainedTokenizerFast"}, {}
        for role, content in zip(rng.sample(["eos_token", "pad_token", "unk_token", "bos_token"], 4), contents):
            place_of = rng.choice([config, names])
            place_of[role] = {"__type": "AddedToken", **t} if isinstance(t := token(content), dict) and place_of is config else t
        json.dump(config, open(os.path.join(place, "tokenizer_config.json"), "w"))
        json.dump(names, open(os.path.join(place, "special_tokens_map.json"), "w"))
        theirs = AutoTokenizer.from_pretrained(place, clean_up_tokenization_spaces=False)
        ids, ends, _ = our_ids(folder, model, texts)
        for j, text in enumerate(texts):
            want, ours = theirs(text)["input_ids"], ids[ends[j]:ends[j + 1]].tolist()
            if want != ours:
                live.fail(f"named tokens: {text!r}: {want}, not {ours}: {config}, {names}")
    print(f"special tokens named outside tokenizer.json: {40 * len(texts)} texts equal", flush=True)


def check_byte_map_tokens(folder):
    """Compares added tokens spelled with the characters that represent bytes in a vocabulary: new ones, and those of the
    vocabulary, whose ids represent bytes too (Hugging Face decodes all of them as bytes, which changes the new ones)."""
    rng = random.Random(23)
    texts = ["".join(rng.choices([" ", " the", "the", "é", " é", "Ġ", "Ġthe", "Ã©", "Ã", "\n", "Ċ", "x", "<é>", " xé"], k=rng.randrange(1, 9)))
             for _ in range(2000)]
    model = os.path.join(folder, "byte-map.json")
    for _ in range(40):
        ignore_merges = rng.random() < 0.5
        tokenizer = trained("gpt2", ["the é thethe xé the\n", "the Ġ the é x\n"] * 3, 300)
        data = json.loads(tokenizer.to_str())
        if ignore_merges:  # whole pre-tokens are still found
            data["model"].update(ignore_merges=True, merges=[m for m in data["model"]["merges"] if "".join(m).replace(" ", "") != "Ġthe"])
        tokenizer = Tokenizer.from_str(json.dumps(data))
        vocab = data["model"]["vocab"]
        added = rng.sample(["Ġ", "Ġthe", "é", "Ã", "Ã©", "Ċ", "<é>", "ĠĠ", "the"], rng.randrange(1, 4))
        for content in added:
            flags = {flag: rng.random() < 0.3 for flag in ("special", "normalized", "lstrip", "rstrip", "single_word")}
            tokenizer.add_tokens([AddedToken(content, **flags)])
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.save(model)
        ids, ends, back = our_ids(folder, model, texts)
        for i, text in enumerate(texts):
            theirs, ours = tokenizer.encode(text).ids, ids[ends[i]:ends[i + 1]].tolist()
            if theirs != ours:
                live.fail(f"byte map, {added}: {text!r}: {theirs}, not {ours}")
            if all(i < len(vocab) for i in ours) and back[i] != tokenizer.decode(theirs, skip_special_tokens=False):
                live.fail(f"byte map, {added}: {text!r} decodes to {back[i]!r}")
    print(f"added tokens of the byte map's characters: {40 * len(texts)} texts equal", flush=True)


def check_training(folder, style, texts, referee):
    source, out = os.path.join(folder, "train.jsonl"), os.path.join(folder, "trained-" + style)
    with open(source, "w", encoding="utf-8") as lines:
        lines.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    live.run(TOOL, "train-tokenizer", "--input", source, "--output", out, "--vocab-size", str(referee.get_vocab_size()), "--quiet",
             "--pretokenizer", style, *(["--normalizer", "nfc"] if style == "qwen2" else []))
    path = os.path.join(out, "tokenizer.json")
    ours, theirs = json.load(open(path, encoding="utf-8"))["model"], json.loads(referee.to_str())["model"]
    theirs["merges"] = [" ".join(merge) if isinstance(merge, list) else merge for merge in theirs["merges"]]
    if ours["merges"] != theirs["merges"] or ours["vocab"] != theirs["vocab"]:
        live.fail(f"{style}: train-tokenizer learned different merges")
    loaded = Tokenizer.from_file(path)
    for text in texts[:50]:
        if loaded.encode(text).ids != referee.encode(text).ids:
            live.fail(f"{style}: the tokenizer that train-tokenizer wrote gives different ids in Hugging Face tokenizers")
    print(f"{style}: train-tokenizer: {len(ours['merges'])} merges equal", flush=True)


def main():
    strings = list(nasty_strings(int(os.environ.get("LM_LIVE_STRINGS", 4000))))
    code_points = list(code_point_strings())
    real = list(corpora())
    sample = [text for _, texts in real for text in texts[:300]]
    with tempfile.TemporaryDirectory() as folder:
        check_normal_forms(folder)
        check_without_merges(folder, strings[:5000])
        check_added_tokens(folder)
        check_single_word(folder)
        check_named_tokens(folder)
        check_byte_map_tokens(folder)
        named = os.environ.get("LM_LIVE_STYLES")
        for style in named.split(",") if named else STYLES:
            referee = trained(style, sample, 6000)
            if style in STYLES[:STYLES.index("falcon") + 1]:
                check_training(folder, style, sample, referee)
            model = os.path.join(folder, style + ".json")
            referee.save(model)
            compare(folder, style, referee, model, "random strings", strings)
            compare(folder, style, referee, model, "code points", code_points)
            for path, texts in real:
                compare(folder, style, referee, model, os.path.basename(path), texts)
    print("tokenizers", tokenizers.__version__)


if __name__ == "__main__":
    main()
