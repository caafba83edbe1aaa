#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lm-evaluation-harness (pip install lm_eval, version 0.4) with lm-ckpt as its model.

    tools/lm_eval_adapter.py --model lm-utils --model_args checkpoint=checkpoints --tasks lambada_openai

All other arguments are those of lm_eval; --batch_size above 1 is that of lm-ckpt generate. model_args:
  checkpoint=PATH       a checkpoint of lm-utils or Megatron, or a model of Hugging Face
  tokenizer_model=FILE  tokenizer.json; also vocab_file= and merge_file=, tokenizer_type=; default: as lm-ckpt generate
  dtype=bf16            type of the matrices in memory; default: that of the checkpoint
  threads=N             default: one per core
  program=PATH          lm-ckpt; default: the one in PATH
  max_gen_toks=N        tokens that a task without a limit of its own may generate (default 256)
"""
import itertools
import json
import subprocess
import sys
import tempfile

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

OPTIONS = ("tokenizer_model", "tokenizer_type", "vocab_file", "merge_file", "dtype", "threads", "memory")


@register_model("lm-utils")
class LmUtils(LM):
    def __init__(self, checkpoint, program="lm-ckpt", max_gen_toks=256, batch_size=None, device=None, **options):
        super().__init__()
        unknown = set(options) - set(OPTIONS) - {"max_batch_size"}
        if unknown:
            raise ValueError(f"model_args: unknown: {', '.join(sorted(unknown))}; known: {', '.join(OPTIONS)}")
        self.program = program
        self.checkpoint = str(checkpoint)
        self.max_gen_toks = int(max_gen_toks)
        # 1 is the default of lm_eval. The answers are the same for any size, so lm-ckpt chooses it.
        self.batch = ["--batch-size", str(batch_size)] if str(batch_size).isdecimal() and int(batch_size) > 1 else []
        self.flags = []
        for name in OPTIONS:
            if name in options:
                self.flags += ["--" + name.replace("_", "-"), str(options[name])]

    def _run(self, verb, items, *flags):
        """Returns the lines of the output of one call of lm-ckpt for `items`, as objects."""
        if not items:
            return []
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.writelines(json.dumps(item) + "\n" for item in items)
            file.flush()
            data = [file.name] if verb == "score" else ["--prompts", file.name]
            command = [self.program, verb, self.checkpoint, *data, *flags, *self.flags]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def loglikelihood(self, requests, disable_tqdm=False):
        """Scores adjacent requests with the same context, the choices of one question, together: the context is computed once."""
        groups = [(context, [request.args[1] for request in group])
                  for context, group in itertools.groupby(requests, lambda request: request.args[0])]
        lines = self._run("score", [{"context": context, "choices": choices} for context, choices in groups])
        return [(choice["log_probability"], choice["greedy"])
                for line in lines if line["kind"] == "question" for choice in line["choices"]]

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        lines = self._run("score", [{"text": request.args[0]} for request in requests])
        return [line["log_probability"] for line in lines if line["kind"] == "document"]

    def generate_until(self, requests, disable_tqdm=False):
        items = []
        for request in requests:
            context, arguments = request.args
            if arguments.get("do_sample") and arguments.get("temperature", 1.0) != 0:
                raise ValueError("lm-utils: the adapter generates greedily: set do_sample to false")
            until = arguments.get("until", [])
            items.append({"prompt": context, "stop": [until] if isinstance(until, str) else until,
                          "max_new_tokens": arguments.get("max_gen_toks", self.max_gen_toks)})
        return [line["text"] for line in self._run("generate", items, "--cut-prompts", "--quiet", *self.batch)]


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate
    sys.exit(cli_evaluate())
