#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real lm-evaluation-harness on tasks from local data: the same scores with transformers and with lm-ckpt."""
# venv: .venv-megatron
import importlib.util
import json
import os
import random
import shutil
import tempfile

import torch
import transformers

import live

try:
    import lm_eval
    from lm_eval.tasks import TaskManager
except ImportError as error:
    live.skip(f"{error}: tools/install-deps --megatron")

COMMON = """
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
"""
TASKS = {
    "local_choice": """
task: local_choice
output_type: multiple_choice
doc_to_text: "{{question}}\\nAnswer:"
doc_to_target: "{{label}}"
doc_to_choice: "{{choices}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
""",
    "local_last_word": """
task: local_last_word
output_type: loglikelihood
doc_to_text: "{{text.split(' ')[:-1]|join(' ')}}"
doc_to_target: "{{' ' + text.split(' ')[-1]}}"
metric_list: [{metric: perplexity}, {metric: acc}]
""",
    "local_text": """
task: local_text
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]
""",
    "local_answer": """
task: local_answer
output_type: generate_until
doc_to_text: "{{text[:60]}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n", " the"], max_gen_toks: 12}
metric_list: [{metric: exact_match}]
""",
}
TRAIN = ("--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --attention-dropout 0 --hidden-dropout 0 "
         "--micro-batch-size 8 --global-batch-size 8 --train-iters 60 --lr 5e-3 --device cpu --eval-iters 0").split()


def make_model(folder):
    """A model that has seen some of the corpus, with GPT-2's tokenizer, for Hugging Face and as a checkpoint."""
    texts, prefix, saved = (os.path.join(folder, name) for name in ("some.jsonl", "some", "saved"))
    with open(live.corpus(), encoding="utf-8") as corpus, open(texts, "w", encoding="utf-8") as some:
        some.writelines(line for _, line in zip(range(300), corpus))
    live.run(live.tool("lm-preprocess"), "--input", texts, "--output-prefix", prefix, "--append-eod", "-q")
    live.run(live.tool("lm-train"), *TRAIN, "--data-path", prefix + "_text_document", "--save", saved)
    hf = os.path.join(folder, "hf")
    live.run(live.tool("lm-convert"), saved, hf, "--to", "hf-gpt2", "-q")
    with open(texts, encoding="utf-8") as file:
        return saved, hf, [json.loads(line)["text"] for line in file]


def make_tasks(folder, texts):
    draw = random.Random(1)
    words = sorted({word for text in texts for word in text.split() if word.isalpha()})
    data = os.path.join(folder, "test.jsonl")
    with open(data, "w", encoding="utf-8") as file:
        for text in texts[200:240]:
            text = " ".join(text.split()[:draw.choice((30, 60, 150))])
            choices = [" ".join(draw.sample(words, draw.randint(1, 4))) for _ in range(3)] + [" ".join(text.split()[6:9])]
            draw.shuffle(choices)
            file.write(json.dumps({"text": text, "question": " ".join(text.split()[:6]), "choices": choices,
                                   "label": draw.randrange(4), "answer": ""}) + "\n")
    tasks = os.path.join(folder, "tasks")
    os.mkdir(tasks)
    for name, text in TASKS.items():
        with open(os.path.join(tasks, name + ".yaml"), "w", encoding="utf-8") as file:
            file.write(COMMON.format(data=data) + text)
    return TaskManager(include_path=tasks, include_defaults=False)


def evaluate(model, tasks, manager):
    results = lm_eval.simple_evaluate(model=model, tasks=tasks, task_manager=manager, bootstrap_iters=0, log_samples=True)
    scores = {(task, metric): value for task, values in results["results"].items() for metric, value in values.items()
              if "stderr" not in metric and isinstance(value, float)}
    answers = {task: [sample["resps"] for sample in samples] for task, samples in results["samples"].items()}
    return scores, answers


def adapter():
    path = os.path.join(live.ROOT, "tools", "lm_eval_adapter.py")
    spec = importlib.util.spec_from_file_location("lm_eval_adapter", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LmUtils


def main():
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    from lm_eval.models.huggingface import HFLM
    folder = tempfile.mkdtemp()
    os.environ["HF_HOME"] = os.path.join(folder, "cache")
    try:
        saved, hf, texts = make_model(folder)
        manager = make_tasks(folder, texts)
        theirs, their_answers = evaluate(HFLM(pretrained=hf, device="cpu", dtype="float32"), list(TASKS), manager)
        model_class = adapter()
        for path in saved, hf:
            model = model_class(checkpoint=path, program=live.tool("lm-ckpt"))
            ours, answers = evaluate(model, list(TASKS), manager)
            if ours.keys() != theirs.keys() or len(ours) < 8:
                live.fail(f"other metrics: {sorted(ours)} instead of {sorted(theirs)}")
            for name, value in theirs.items():
                if abs(ours[name] - value) > 1e-4 * max(1, abs(value)):
                    live.fail(f"{path}: {name}: {ours[name]} instead of {value}")
            if answers["local_answer"] != their_answers["local_answer"]:
                live.fail(f"{path}: other texts: {answers['local_answer']} instead of {their_answers['local_answer']}")
        for (task, metric), value in theirs.items():
            print(f"{task} {metric}: {value:.6g} with transformers, {ours[task, metric]:.6g} with lm-ckpt")
    finally:
        shutil.rmtree(folder)


main()
