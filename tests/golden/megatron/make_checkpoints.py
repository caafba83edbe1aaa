#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_checkpoints.py FOLDER: trains small models with megatron-core on the CPU for two steps and saves each in every form of
its checkpoints, as FOLDER/*.tar.xz. Needs torch 2.6 or later and megatron-core 0.16 (README.md)."""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import warnings

RANK = os.environ.get("RANK")
VOCABULARY, PADDED, T, BATCH, STEPS = 29, 32, 8, 2, 2
# name: sizes of the model; tensor ranks, stages, data-parallel ranks; elements that fill a bucket of gradients (None: one
# bucket); forms of the distributed optimizer
MODELS = {
    "gpt2": ({"hidden_size": 8, "num_attention_heads": 2, "ffn_hidden_size": 12}, (2, 2, 2), 500,
             ("dp_reshardable", "dp_zero_gather_scatter")),
    "llama": ({"hidden_size": 16, "num_attention_heads": 4, "num_query_groups": 2, "ffn_hidden_size": 12,
               "swiglu": True}, (2, 1, 2), None, ("dp_reshardable", "fully_reshardable")),
    "virtual": ({"num_layers": 4, "hidden_size": 8, "num_attention_heads": 2, "ffn_hidden_size": 12,
                 "virtual_pipeline_model_parallel_size": 2}, (1, 2, 2), 500,
                ("dp_reshardable", "dp_zero_gather_scatter")),
    "plain": ({"hidden_size": 8, "num_attention_heads": 2, "ffn_hidden_size": 12}, (1, 2, 1), None, ()),
    "rope": ({"hidden_size": 16, "num_attention_heads": 4, "num_query_groups": 2, "ffn_hidden_size": 12,
              "swiglu": True}, (1, 2, 1), None, ()),
}
LLAMAS = ("llama", "rope")  # RoPE, RMSNorm, SwiGLU, grouped queries, no biases, an untied head


def args_of(name):
    """The attributes of Megatron-LM's args that describe the model."""
    sizes, (tp, pp, dp), bucket, _ = MODELS[name]
    llama = name in LLAMAS
    args = {"num_layers": 2, "seq_length": T, "max_position_embeddings": T, "kv_channels": 4, "attention_dropout": 0.0,
            "hidden_dropout": 0.0, "layernorm_epsilon": 1e-5, "norm_epsilon": 1e-5, "init_method_std": 0.02, "swiglu": False,
            "bias_gelu_fusion": False, "openai_gelu": True, "padded_vocab_size": PADDED, "vocab_size": VOCABULARY,
            "tensor_model_parallel_size": tp, "pipeline_model_parallel_size": pp,
            "virtual_pipeline_model_parallel_size": None, "consumed_train_samples": STEPS * BATCH * dp,
            "seed": 1234, "num_experts": None, "add_bias_linear": not llama, "group_query_attention": llama,
            "untie_embeddings_and_output_weights": llama, "rotary_base": 10000, "rotary_percent": 1.0,
            "position_embedding_type": "rope" if llama else "learned_absolute",
            "normalization": "RMSNorm" if llama else "LayerNorm", "bf16": name not in ("plain", "rope"), "fp16": False,
            "overlap_grad_reduce": bucket is not None, "ddp_bucket_size": bucket, "data_parallel_size": dp,
            "transformer_impl": "local"}
    args.update(sizes)
    return argparse.Namespace(**args)


def without_cuda(torch):
    """Makes the CPU the current CUDA device, which megatron-core requests in many places."""
    cpu = torch.device("cpu")
    torch.cuda.current_device = lambda: cpu
    for name in ("set_device", "synchronize", "empty_cache"):
        setattr(torch.cuda, name, lambda *args, **kwargs: None)
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *args, **kwargs: self

    def on_cpu(make):
        return lambda *args, **kwargs: make(*args, **{**kwargs, **({"device": cpu} if "device" in kwargs else {})})

    for name in ("tensor", "zeros", "ones", "empty", "full", "arange"):
        setattr(torch, name, on_cpu(getattr(torch, name)))
    type_of = torch.Tensor.type

    def cuda_type(self, *args, **kwargs):
        made = type_of(self, *args, **kwargs)
        return made.replace("torch.", "torch.cuda.") if isinstance(made, str) else made

    torch.Tensor.type = cuda_type
    from megatron.core import tensor_parallel
    tensor_parallel.random.CudaRNGStatesTracker.fork = lambda *args, **kwargs: contextlib.nullcontext()


class Run:
    """One training on one rank."""

    def __init__(self, name, distributed):
        import torch
        from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
        from megatron.core.transformer.transformer_config import TransformerConfig
        self.name, self.args, self.is_distributed = name, args_of(name), distributed
        args = self.args
        mixed = torch.bfloat16 if args.bf16 else torch.float32
        torch.manual_seed(5)
        config = TransformerConfig(
            num_layers=args.num_layers, hidden_size=args.hidden_size, num_attention_heads=args.num_attention_heads, kv_channels=4,
            num_query_groups=getattr(args, "num_query_groups", None), ffn_hidden_size=args.ffn_hidden_size,
            tensor_model_parallel_size=args.tensor_model_parallel_size, use_cpu_initialization=True,
            pipeline_model_parallel_size=args.pipeline_model_parallel_size, hidden_dropout=0.0, attention_dropout=0.0,
            virtual_pipeline_model_parallel_size=args.virtual_pipeline_model_parallel_size,
            params_dtype=mixed, bf16=args.bf16, pipeline_dtype=mixed, gated_linear_unit=args.swiglu,
            activation_func=torch.nn.functional.silu if args.swiglu else
            lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
            add_bias_linear=args.add_bias_linear, normalization=args.normalization, bias_activation_fusion=False,
            gradient_accumulation_fusion=False, bias_dropout_fusion=False)
        self.models = [self.chunk(config, number) for number in range(self.n_chunks())]
        self.optimizer = get_megatron_optimizer(
            OptimizerConfig(optimizer="adam", lr=0.01, min_lr=0.001, weight_decay=0.1, adam_beta2=0.95, bf16=args.bf16,
                            params_dtype=mixed, use_distributed_optimizer=distributed, clip_grad=0.0), self.models)
        for group in self.optimizer.param_groups:  # what Megatron's scheduler does
            group["weight_decay"] = 0.1 * group["wd_mult"]
        config.no_sync_func = [model.no_sync for model in self.models]
        if self.n_chunks() == 1:
            config.no_sync_func = config.no_sync_func[0]
        config.finalize_model_grads_func = self.finalize
        self.losses = []

    def n_chunks(self):
        return self.args.virtual_pipeline_model_parallel_size or 1

    def chunk(self, config, number):
        """Returns chunk `number` of the stage: one of its virtual stages, or all of its layers."""
        import torch
        from megatron.core import parallel_state
        from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
        from megatron.core.models.gpt import GPTModel
        from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
        args, stage = self.args, number if self.n_chunks() > 1 else None
        ends = {"ignore_virtual": False, "vp_stage": stage}
        model = GPTModel(config, get_gpt_layer_local_spec(normalization=args.normalization), vocab_size=PADDED,
                         max_sequence_length=T, pre_process=parallel_state.is_pipeline_first_stage(**ends),
                         post_process=parallel_state.is_pipeline_last_stage(**ends),
                         share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                         position_embedding_type=args.position_embedding_type, vp_stage=stage)
        # Norm weights are all ones at the start, and biases all zeros. Makes their elements differ.
        with torch.no_grad():
            for i, (key, value) in enumerate(sorted(model.named_parameters())):
                if value.dim() == 1:
                    value += 0.01 * torch.arange(value.numel()) + 0.001 * i
        model = DistributedDataParallel(
            config, DistributedDataParallelConfig(use_distributed_optimizer=self.is_distributed, grad_reduce_in_fp32=True,
                                                  overlap_grad_reduce=args.overlap_grad_reduce,
                                                  bucket_size=args.ddp_bucket_size),
            model.to(config.params_dtype), disable_bucketing=number > 0)
        model.broadcast_params()
        return model

    @staticmethod
    def finalize(models, *_, **__):
        from megatron.core.distributed import finalize_model_grads
        finalize_model_grads(models)

    def tokens(self, step):
        """A sequence whose BATCH samples of T + 1 tokens overlap by one token, as those of Megatron's datasets."""
        import torch
        from megatron.core import parallel_state
        generator = torch.Generator().manual_seed(100 * min(step, STEPS) + parallel_state.get_data_parallel_rank())
        return torch.randint(0, VOCABULARY, (BATCH * T + 1,), generator=generator)

    def batch(self, step):
        import torch
        samples = self.tokens(step).unfold(0, T + 1, T)
        return {"input_ids": samples[:, :-1], "labels": samples[:, 1:], "position_ids": torch.arange(T).expand(BATCH, T),
                "attention_mask": torch.ones(1, 1, T, T, dtype=torch.bool).triu(1)}

    def step(self, step):
        from megatron.core.pipeline_parallel import get_forward_backward_func

        def forward(iterator, model):
            return model(**next(iterator)), lambda loss: (loss.float().mean(), {"loss": loss.float().mean().item()})

        for model in self.models:
            model.zero_grad_buffer()
        self.optimizer.zero_grad()
        n = len(self.models)
        batches = [iter([self.batch(step)] * n) for _ in self.models]
        done = get_forward_backward_func()(
            forward_step_func=forward, data_iterator=batches if n > 1 else batches[0], model=self.models if n > 1 else
            self.models[0], num_microbatches=n, seq_length=T, micro_batch_size=BATCH, forward_only=False)
        self.losses += [item["loss"] for item in done]
        self.optimizer.step()

    def common(self):
        return {"args": self.args, "checkpoint_version": 3.0, "iteration": STEPS, "num_floating_point_operations_so_far": 0,
                "opt_param_scheduler": {"num_steps": STEPS * BATCH}}

    def save_torch(self, folder):
        """The format torch: model_optim_rng.pt, and distrib_optim.pt of the distributed optimizer."""
        import torch
        from megatron.core import parallel_state
        tp, pp = parallel_state.get_tensor_model_parallel_rank(), parallel_state.get_pipeline_model_parallel_rank()
        stages = parallel_state.get_pipeline_model_parallel_world_size()
        step = f"{folder}/iter_{STEPS:07d}/mp_rank_{tp:02d}" + (f"_{pp:03d}" if stages > 1 else "")
        os.makedirs(step, exist_ok=True)
        if self.is_distributed:
            self.optimizer.save_parameter_state(step + "/distrib_optim.pt")
        if parallel_state.get_data_parallel_rank() == 0:
            models = self.by_key(lambda model: model.state_dict_for_save_checkpoint())
            torch.save({**self.common(), **models, "optimizer": self.optimizer.state_dict()}, step + "/model_optim_rng.pt")
        with open(folder + "/latest_checkpointed_iteration.txt", "w", encoding="ascii") as file:
            file.write(str(STEPS))

    def by_key(self, state_of):
        """The states of the chunks by their keys in a checkpoint."""
        names = ["model"] if len(self.models) == 1 else [f"model{number}" for number in range(len(self.models))]
        return {name: state_of(model.module) for name, model in zip(names, self.models)}

    def save_dist(self, folder, sharding):
        """The format torch_dist."""
        import torch
        from megatron.core import dist_checkpointing
        step = f"{folder}/iter_{STEPS:07d}"
        metadata = {"singleton_local_shards": False, "chained_optim_avoid_prefix": True}
        if sharding:
            metadata["distrib_optim_sharding_type"] = sharding
        if torch.distributed.get_rank() == 0:
            os.makedirs(step)
        torch.distributed.barrier()
        models = self.by_key(lambda model: model.sharded_state_dict(metadata=metadata))
        whole = models["model"] if len(models) == 1 else models
        state = {**self.common(), **models, "optimizer": self.optimizer.sharded_state_dict(whole, metadata=metadata)}
        dist_checkpointing.save(state, step, ("torch_dist", 1), content_metadata=metadata)
        if torch.distributed.get_rank() == 0:
            with open(folder + "/latest_checkpointed_iteration.txt", "w", encoding="ascii") as file:
                file.write(str(STEPS))


def train(name, folder):
    """On one rank: trains `name` with and without the distributed optimizer and saves all forms."""
    import torch
    warnings.filterwarnings("ignore")
    without_cuda(torch)
    torch.set_num_threads(1)
    from megatron.core import parallel_state
    args, (tp, pp, _) = args_of(name), MODELS[name][1]
    torch.distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel(tp, pp, args.virtual_pipeline_model_parallel_size)
    for distributed in (False, True):
        if distributed and not args.bf16:
            continue
        run = Run(name, distributed)
        for step in range(STEPS):
            run.step(step)
        if distributed:
            run.save_torch(f"{folder}/{name}-distributed")
            for form in MODELS[name][3]:
                run.save_dist(f"{folder}/{name}-{form.replace('_', '-')}", form)
        else:
            run.save_torch(f"{folder}/{name}-torch")
            run.save_dist(f"{folder}/{name}-torch-dist", None)
        for step in (STEPS, STEPS + 1, STEPS + 2):
            run.step(step)
        if run.losses and not args.bf16:  # the next losses, all on the same batch
            with open(f"{folder}/{name}-next.json", "w", encoding="ascii") as file:
                json.dump({"tokens": run.tokens(STEPS).tolist(), "losses": run.losses[STEPS:]}, file)
    torch.distributed.barrier()


def main():
    if RANK is not None:
        return train(sys.argv[2], sys.argv[1])
    out = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        write(folder)
        for name in MODELS:
            subprocess.run(f"tar --sort=name --mtime=@0 --owner=0 --group=0 -cJf {out}/{name}.tar.xz {name}-*", shell=True,
                           cwd=folder, check=True)


def write(folder):
    """Starts the ranks of each model."""
    for name, (_, (tp, pp, dp), _, _) in MODELS.items():
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={tp * pp * dp}",
                        __file__, folder, name], check=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
