#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The training of a scenario by megatron-core on the CPU: its GPTModel, datasets, calculator of micro-batches, schedule of
passes, optimizer and scheduler of rates. Calls of CUDA are replaced."""
import argparse
import importlib.util
import json
import os
import re
import warnings

import live

warnings.filterwarnings("ignore")
try:
    import torch
    from megatron.core import parallel_state
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
    from safetensors.torch import load_file
except Exception as error:  # a broken installation is a reason to skip
    live.skip(f"megatron-core 0.16 is needed: {error}")

spec = importlib.util.spec_from_file_location(
    "make_checkpoints", os.path.join(live.ROOT, "tests", "golden", "megatron", "make_checkpoints.py"))
make_checkpoints = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_checkpoints)


def parse(words):
    """Reads the flags of a scenario as Megatron-LM does."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name, default in (("num-layers", 0), ("hidden-size", 0), ("num-attention-heads", 0), ("seq-length", 0), ("vocab-size", 0),
                          ("max-position-embeddings", 0), ("ffn-hidden-size", None), ("kv-channels", None), ("train-iters", None),
                          ("num-query-groups", None), ("rotary-base", 10000), ("micro-batch-size", 0), ("global-batch-size", 0),
                          ("train-samples", None), ("lr-decay-iters", None), ("lr-decay-samples", None), ("seed", 0),
                          ("lr-warmup-iters", 0), ("lr-warmup-samples", 0), ("lr-wsd-decay-iters", None), ("eval-iters", 0),
                          ("eval-interval", 1000), ("make-vocab-size-divisible-by", 128)):
        parser.add_argument("--" + name, type=int, default=default)
    for name, default in (("init-method-std", 0.02), ("attention-dropout", 0.1), ("hidden-dropout", 0.1), ("clip-grad", 1.0),
                          ("weight-decay", 0.01), ("adam-beta2", 0.999), ("rope-scaling-factor", 8.0), ("rotary-percent", 1.0),
                          ("lr", 0.0), ("min-lr", 0.0), ("decoupled-lr", None), ("decoupled-min-lr", None),
                          ("start-weight-decay", None), ("end-weight-decay", None), ("lr-warmup-fraction", None),
                          ("lr-warmup-init", 0.0)):
        parser.add_argument("--" + name, type=float, default=default)
    for name, default in (("data-order", ""), ("tokenizer-type", ""), ("position-embedding-type", "learned_absolute"),
                          ("normalization", "LayerNorm"), ("window-size", None), ("window-attn-skip-freq", None),
                          ("no-rope-freq", None), ("weight-decay-incr-style", "constant"),
                          ("lr-decay-style", "linear"), ("lr-wsd-decay-style", "exponential"), ("split", "969,30,1")):
        parser.add_argument("--" + name, default=default)
    for name in ("swiglu", "squared-relu", "disable-bias-linear", "untie-embeddings-and-output-weights", "group-query-attention",
                 "use-rope-scaling", "apply-layernorm-1p", "qk-layernorm", "add-qkv-bias", "rotary-interleaved",
                 "reset-position-ids", "reset-attention-mask", "eod-mask-loss", "calculate-per-token-loss",
                 "softmax-over-padding"):
        parser.add_argument("--" + name, action="store_true")
    parser.add_argument("--data-path", nargs="*")
    parser.add_argument("--rampup-batch-size", nargs=3, type=int)
    parser.add_argument("--iterations-to-skip", nargs="*", type=int, default=[])
    return parser.parse_args(words)


class Tokenizer:
    """A stand-in: Megatron's datasets use only the size of a tokenizer and the id that ends a document."""
    pad, unique_identifiers = -1, {"class": "Tokenizer"}

    def __init__(self, vocabulary):
        self.vocab_size, self.eod = vocabulary, vocabulary - 1


class NormOnePlus(torch.nn.Module):
    """LayerNorm or RMSNorm times 1 + weight, in place of the kernels of Apex and Transformer Engine."""

    def __init__(self, config, hidden_size, eps):
        super().__init__()
        self.size, self.eps, self.is_rms = (hidden_size,), eps, config.normalization == "RMSNorm"
        self.weight = torch.nn.Parameter(torch.zeros(hidden_size))
        if not self.is_rms:
            self.bias = torch.nn.Parameter(torch.zeros(hidden_size))

    def forward(self, x):
        if self.is_rms:
            return torch.nn.functional.rms_norm(x, self.size, 1 + self.weight, self.eps)
        return torch.nn.functional.layer_norm(x, self.size, 1 + self.weight, self.bias, self.eps)


def start():
    """Replaces the calls of CUDA, and makes the groups of a single rank."""
    make_checkpoints.without_cuda(torch)
    torch.set_num_threads(1)
    from megatron.core.optimizer import clip_grads
    from megatron.core.transformer.torch_norm import WrappedTorchNorm
    plain = WrappedTorchNorm.__new__

    def norm(cls, config, hidden_size, eps=1e-5, **rest):
        if config.layernorm_zero_centered_gamma:
            return NormOnePlus(config, hidden_size, eps)
        return plain(cls, config, hidden_size, eps, **rest)

    WrappedTorchNorm.__new__ = norm
    # torch's fp32 norm of a large tensor on the CPU is off by up to 3e-4.
    clip_grads.l2_norm_impl = lambda _, __, lists, ___: (
        torch.stack([x.double().square().sum() for x in lists[0]]).sum().sqrt().float().view(1), None)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel(1, 1)


def theirs(name, weights):
    """Returns the tensor for the parameter `name` of GPTModel, made from lm-train's `weights`."""
    name = name.replace("module.", "")
    if not name.startswith("decoder.layers."):
        for old, new in (("embedding.word_embeddings.", "embedding.word."), ("decoder.final_layernorm.", "final_norm."),
                         ("embedding.position_embeddings.", "embedding.position."), ("output_layer.", "head.")):
            name = name.replace(old, new)
        return weights[name]
    layer, part = re.fullmatch(r"decoder\.layers\.(\d+)\.(.*)", name).groups()
    prefix, suffix = f"layers.{layer}.", part.rsplit(".", 1)[1]
    own = lambda which: weights[f"{prefix}{which}.{suffix}"]
    if "linear_qkv" in part:
        groups = own("attention.key").shape[0] // weights["head_dim"]
        rows = [own("attention." + which) for which in ("query", "key", "value")]
        return torch.cat([x.reshape(groups, -1, *x.shape[1:]) for x in rows], 1).reshape(-1, *rows[0].shape[1:])
    if "linear_fc1" in part and f"{prefix}mlp.gate.{suffix}" in weights:
        return torch.cat([own("mlp.gate"), own("mlp.up")])
    names = {"input_layernorm": "attention.norm", "self_attention.linear_proj": "attention.output",
             "self_attention.q_layernorm": "attention.query_norm", "self_attention.k_layernorm": "attention.key_norm",
             "pre_mlp_layernorm": "mlp.norm", "mlp.linear_fc1": "mlp.up", "mlp.linear_fc2": "mlp.down"}
    return own(names[part.rsplit(".", 1)[0]])


def layers_of(text):
    """Returns the number or the list of a choice of layers."""
    return json.loads(text) if text else None


class Training:
    """One training by megatron-core."""

    def __init__(self, words, weight_files):
        args = self.args = parse(words)
        self.kv_channels = args.kv_channels or args.hidden_size // args.num_attention_heads
        self.make_model(weight_files)
        from megatron.core import num_microbatches_calculator as calculator
        self.calculator = calculator
        calculator.destroy_num_microbatches_calculator()
        calculator.init_num_microbatches_calculator(0, args.rampup_batch_size, args.global_batch_size, args.micro_batch_size, 1)
        self.make_optimizer()
        self.train_set, self.valid_set, self.test_set = self.datasets()
        self.consumed = self.validated = 0

    def config(self):
        from megatron.core.transformer.transformer_config import TransformerConfig
        args, f = self.args, torch.nn.functional
        activation = f.silu if args.swiglu else lambda x: f.gelu(x, approximate="tanh")
        if args.squared_relu:
            activation = lambda x: torch.pow(f.relu(x), 2)  # noqa: E731
        return TransformerConfig(
            num_layers=args.num_layers, hidden_size=args.hidden_size, num_attention_heads=args.num_attention_heads,
            num_query_groups=args.num_query_groups, ffn_hidden_size=args.ffn_hidden_size or 4 * args.hidden_size,
            kv_channels=self.kv_channels, hidden_dropout=0.0, attention_dropout=0.0, activation_func=activation,
            gated_linear_unit=args.swiglu, add_bias_linear=not args.disable_bias_linear, add_qkv_bias=args.add_qkv_bias,
            normalization=args.normalization, layernorm_zero_centered_gamma=args.apply_layernorm_1p,
            qk_layernorm=args.qk_layernorm, rotary_interleaved=args.rotary_interleaved,
            window_size=tuple(map(int, args.window_size.split(","))) if args.window_size else None,
            window_attn_skip_freq=layers_of(args.window_attn_skip_freq), no_rope_freq=layers_of(args.no_rope_freq),
            calculate_per_token_loss=args.calculate_per_token_loss, use_cpu_initialization=True, bias_activation_fusion=False,
            gradient_accumulation_fusion=False, bias_dropout_fusion=False, masked_softmax_fusion=False)

    def make_model(self, weight_files):
        from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
        from megatron.core.models.gpt import GPTModel
        from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
        args, config = self.args, self.config()
        multiple = args.make_vocab_size_divisible_by if args.softmax_over_padding else 1
        model = GPTModel(
            config, get_gpt_layer_local_spec(qk_layernorm=args.qk_layernorm, normalization=args.normalization),
            vocab_size=-(-args.vocab_size // multiple) * multiple, max_sequence_length=args.max_position_embeddings,
            share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
            position_embedding_type=args.position_embedding_type, rotary_percent=args.rotary_percent, rotary_base=args.rotary_base,
            rope_scaling=args.use_rope_scaling, rope_scaling_factor=args.rope_scaling_factor)
        weights = {"head_dim": self.kv_channels}
        for file in weight_files:
            weights.update(load_file(file))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(theirs(name, weights))
        self.model = DistributedDataParallel(config, DistributedDataParallelConfig(grad_reduce_in_fp32=True), model)
        config.no_sync_func = self.model.no_sync
        config.finalize_model_grads_func = finalize_model_grads

    def make_optimizer(self):
        from megatron.core import optimizer as optimizers
        args = self.args
        config = optimizers.OptimizerConfig(
            optimizer="adam", lr=args.lr, min_lr=args.min_lr, decoupled_lr=args.decoupled_lr, clip_grad=args.clip_grad,
            decoupled_min_lr=args.decoupled_min_lr, weight_decay=args.weight_decay, adam_beta1=0.9, adam_beta2=args.adam_beta2)
        self.optimizer = optimizers.get_megatron_optimizer(
            config, [self.model], config_overrides=optimizers.get_standard_config_overrides(config))
        unit = 1 if args.train_samples else args.global_batch_size
        decay = args.lr_decay_samples if args.train_samples else args.lr_decay_iters * unit
        warmup = args.lr_warmup_samples if args.train_samples else args.lr_warmup_iters * unit
        if args.lr_warmup_fraction is not None:
            warmup = args.lr_warmup_fraction * decay
        constant = args.start_weight_decay is None
        self.scheduler = OptimizerParamScheduler(
            self.optimizer, init_lr=args.lr_warmup_init, max_lr=args.lr, min_lr=args.min_lr, lr_warmup_steps=warmup,
            lr_decay_steps=decay, lr_decay_style=args.lr_decay_style,
            start_wd=args.weight_decay if constant else args.start_weight_decay,
            end_wd=args.weight_decay if constant else args.end_weight_decay,
            wd_incr_steps=args.train_samples or args.train_iters * unit, wd_incr_style=args.weight_decay_incr_style,
            wsd_decay_steps=args.lr_wsd_decay_iters * unit if args.lr_wsd_decay_iters else None,
            lr_wsd_decay_style=args.lr_wsd_decay_style)

    def datasets(self):
        from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
        from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
        from megatron.core.datasets.utils import get_blend_from_list
        args = self.args
        config = GPTDatasetConfig(
            random_seed=args.seed, sequence_length=args.seq_length, blend=get_blend_from_list(args.data_path), split=args.split,
            tokenizer=Tokenizer(args.vocab_size), reset_position_ids=args.reset_position_ids,
            reset_attention_mask=args.reset_attention_mask, eod_mask_loss=args.eod_mask_loss)
        n_train = args.train_samples or args.train_iters * args.global_batch_size
        n_evaluations = args.train_iters // args.eval_interval + 1 if args.eval_iters else 0
        sizes = [n_train, n_evaluations * args.eval_iters * args.global_batch_size, args.eval_iters * args.global_batch_size]
        return BlendedMegatronDatasetBuilder(GPTDataset, sizes, lambda: True, config).build()

    def batches(self, dataset, begin, count):
        """The micro-batches of the next `count` samples."""
        size = self.args.micro_batch_size
        for at in range(begin, begin + count, size):
            yield torch.utils.data.default_collate([dataset[at + k] for k in range(size)])

    def forward(self, iterator, model):
        batch = next(iterator)
        mask = batch["loss_mask"].view(-1).float()
        output = model(batch["tokens"], batch["position_ids"], batch["attention_mask"], labels=batch["labels"])

        def loss_of(output):
            loss, n = torch.sum(output.view(-1).float() * mask), mask.sum().to(torch.int)
            return loss, n, (loss.detach().double().item(), n.item())

        return output, loss_of

    def passes(self, dataset, begin, n, only_forward):
        """Runs the passes of n micro-batches and returns the sum of the losses of their unmasked tokens, and their number."""
        from megatron.core.pipeline_parallel import get_forward_backward_func
        args = self.args
        reports = get_forward_backward_func()(
            forward_step_func=self.forward, data_iterator=self.batches(dataset, begin, n * args.micro_batch_size),
            model=self.model, num_microbatches=n, seq_length=args.seq_length, micro_batch_size=args.micro_batch_size,
            forward_only=only_forward)
        return sum(loss for loss, _ in reports), sum(n for _, n in reports)

    def step(self):
        self.calculator.update_num_microbatches(self.consumed)
        n = self.calculator.get_num_microbatches()
        self.model.zero_grad_buffer()
        self.optimizer.zero_grad()
        loss, tokens = self.passes(self.train_set, self.consumed, n, False)
        _, norm, _ = self.optimizer.step()
        self.consumed += n * self.args.micro_batch_size
        self.scheduler.step(n * self.args.micro_batch_size)
        rate = self.optimizer.param_groups[0]["lr"]
        for group in self.optimizer.param_groups:
            rate = group["lr"] if group.get("default_config") else rate
        return {"losses": loss / tokens, "norms": float(norm), "rates": rate, "samples": self.consumed}

    def evaluate(self, dataset, begin):
        """Returns what evaluate() of Megatron-LM (megatron/training/training.py) does: sums over all batches, then one division."""
        args = self.args
        n = args.global_batch_size // args.micro_batch_size
        sums = [self.passes(dataset, begin + k * args.global_batch_size, n, True) for k in range(args.eval_iters)]
        return sum(loss for loss, _ in sums) / sum(tokens for _, tokens in sums)

    def validate(self):
        begin = self.validated
        self.validated += self.args.eval_iters * self.args.global_batch_size
        return self.evaluate(self.valid_set, begin)

    def run(self):
        """Returns the numbers of each iteration, and of the evaluations."""
        args, out = self.args, {"losses": [], "norms": [], "rates": [], "samples": [], "validation": []}
        iteration = 0
        while self.consumed < (args.train_samples or args.train_iters * args.global_batch_size):
            iteration += 1
            if iteration in args.iterations_to_skip:  # as in Megatron-LM's train() since March 2026
                self.consumed += args.global_batch_size
                continue
            for key, value in self.step().items():
                out[key].append(value)
            if args.eval_iters and len(out["losses"]) % args.eval_interval == 0:
                out["validation"].append(self.validate())
        if args.eval_iters:
            out["validation"].append(self.validate())
            if self.test_set is not None:
                out["validation"].append(self.evaluate(self.test_set, 0))
        return out
