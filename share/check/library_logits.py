#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""library_logits.py transformers|megatron-core MODEL VOCABULARY TOKEN,TOKEN...: computes the logits of one sequence with a
published library, on the CPU in fp32. lm-convert --check-python starts it.

stdout: one line with the library and its version, then the logits [T, VOCABULARY] as fp32, little-endian. The library loads
MODEL itself. torch.load executes what the pickles of a Megatron checkpoint contain, so MODEL must be trusted."""
import contextlib
import glob
import os
import sys
import tempfile
import warnings


def refuse(reason):
    print(f"library_logits.py: {reason}", file=sys.stderr)
    sys.exit(1)


def transformers_logits(folder, tokens):
    import torch
    import transformers
    transformers.utils.logging.set_verbosity_error()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32)
    with torch.no_grad():
        logits = model.eval()(torch.tensor([tokens]), use_cache=False).logits[0]
    return f"transformers {transformers.__version__}", logits


def without_cuda(torch):
    """Makes the CPU the current CUDA device, which megatron-core requests in many places."""
    cpu = torch.device("cpu")
    torch.cuda.current_device = lambda: cpu
    for name in ("set_device", "synchronize", "empty_cache"):
        setattr(torch.cuda, name, lambda *args, **kwargs: None)
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *args, **kwargs: self
    from megatron.core import tensor_parallel
    tensor_parallel.random.CudaRNGStatesTracker.fork = lambda *args, **kwargs: contextlib.nullcontext()


def step_of(folder):
    """Returns the directory of the latest step in a directory of Megatron-LM, or the given step."""
    latest = os.path.join(folder, "latest_checkpointed_iteration.txt")
    if not os.path.exists(latest):
        return folder
    with open(latest, encoding="ascii") as file:
        name = file.read().strip()
    return os.path.join(folder, name if name == "release" else f"iter_{int(name):07d}")


def megatron_model(args, parallel_state):
    """Returns this rank's part of the model that the arguments of a checkpoint describe."""
    import torch
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer.transformer_config import TransformerConfig
    has = lambda name, default=None: getattr(args, name, default)
    tanh = has("openai_gelu", False) or has("bias_gelu_fusion", True)
    activation = torch.nn.functional.silu if has("swiglu") else lambda x: torch.nn.functional.gelu(
        x, approximate="tanh" if tanh else "none")
    if has("squared_relu"):
        activation = lambda x: torch.nn.functional.relu(x).square()
    for name in ("apply_layernorm_1p", "use_rope_scaling", "window_size", "no_rope_freq"):  # need TransformerEngine or a newer megatron-core
        if has(name):
            refuse(f"--check-python cannot compute models with {name} with megatron-core on a CPU: use --check")
    position = has("position_embedding_type", "learned_absolute")
    if position == "yarn":  # needs a newer megatron-core
        refuse("--check-python cannot compute models with yarn with megatron-core on a CPU: use --check")
    if position not in ("learned_absolute", "rope"):
        refuse(f"megatron-core has no position embedding '{position}'")
    norm = has("normalization", "LayerNorm")
    config = TransformerConfig(
        num_layers=args.num_layers, hidden_size=args.hidden_size, num_attention_heads=args.num_attention_heads,
        kv_channels=has("kv_channels"), num_query_groups=args.num_query_groups if has("group_query_attention") else None,
        ffn_hidden_size=args.ffn_hidden_size, use_cpu_initialization=True,
        tensor_model_parallel_size=parallel_state.get_tensor_model_parallel_world_size(),
        pipeline_model_parallel_size=parallel_state.get_pipeline_model_parallel_world_size(), pipeline_dtype=torch.float32,
        hidden_dropout=0.0, attention_dropout=0.0, params_dtype=torch.float32, gated_linear_unit=bool(has("swiglu")),
        activation_func=activation, add_qkv_bias=has("add_qkv_bias", False), qk_layernorm=has("qk_layernorm", False),
        add_bias_linear=has("add_bias_linear", True), normalization=norm,
        layernorm_epsilon=has("norm_epsilon", has("layernorm_epsilon", 1e-5)), bias_activation_fusion=False,
        gradient_accumulation_fusion=False, bias_dropout_fusion=False, rotary_interleaved=has("rotary_interleaved", False))
    spec = get_gpt_layer_local_spec(qk_layernorm=has("qk_layernorm", False), normalization=norm)
    return GPTModel(config, spec, vocab_size=args.padded_vocab_size,
                    max_sequence_length=args.max_position_embeddings, pre_process=parallel_state.is_pipeline_first_stage(),
                    post_process=parallel_state.is_pipeline_last_stage(), parallel_output=False,
                    share_embeddings_and_output_weights=not has("untie_embeddings_and_output_weights", False),
                    position_embedding_type=position, rotary_percent=has("rotary_percent", 1.0),
                    seq_len_interpolation_factor=has("rotary_seq_len_interpolation_factor"),
                    rotary_base=has("rotary_base", 10000)).eval()


def load_torch(model, state):
    """Loads the state of this rank in the format torch."""
    if "model" not in state:
        refuse("a checkpoint with virtual stages in the format torch is not supported: only torch_dist")
    if "language_model" in state["model"]:
        refuse("megatron-core cannot load the classic names of Megatron-LM (language_model.encoder...)")
    wanted = {"self_attention.linear_qkv.layer_norm_": "input_layernorm.", "mlp.linear_fc1.layer_norm_": "pre_mlp_layernorm."}
    tensors = {}
    for name, tensor in state["model"].items():
        for fused, own in wanted.items():  # the names of TransformerEngine's layers
            name = name.replace(fused, own)
        tensors[name] = tensor
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    wrong = [name for name in missing + unexpected if not name.endswith("_extra_state")]
    if wrong:
        refuse(f"megatron-core: missing or unexpected tensors: {', '.join(wrong[:4])}")


def megatron_rank(rank, step, tp, pp, tokens, work):
    """Computes the logits on one of tp * pp ranks; the last stage writes them to work/logits.npy."""
    import numpy
    import torch
    warnings.filterwarnings("ignore")
    without_cuda(torch)
    torch.set_num_threads(max(1, torch.get_num_threads() // (tp * pp)))
    from megatron.core import dist_checkpointing, parallel_state
    torch.distributed.init_process_group("gloo", init_method=f"file://{work}/rendezvous", rank=rank, world_size=tp * pp)
    parallel_state.initialize_model_parallel(tp, pp)
    stage, t = parallel_state.get_pipeline_model_parallel_rank(), parallel_state.get_tensor_model_parallel_rank()
    if os.path.exists(step + "/common.pt"):
        model = megatron_model(torch.load(step + "/common.pt", weights_only=False)["args"], parallel_state)
        model.load_state_dict(dist_checkpointing.load({"model": model.sharded_state_dict()}, step)["model"], strict=False)
    else:
        folder = f"{step}/mp_rank_{t:02d}" + (f"_{stage:03d}" if pp > 1 else "")
        state = torch.load(folder + "/model_optim_rng.pt", map_location="cpu", weights_only=False)
        model = megatron_model(state["args"], parallel_state)
        load_torch(model, state)
    n = len(tokens)
    with torch.no_grad():
        if stage > 0:
            hidden = torch.empty(n, 1, model.config.hidden_size)
            torch.distributed.recv(hidden, rank - tp)
            model.set_input_tensor(hidden)
        out = model(torch.tensor([tokens]), torch.arange(n)[None], torch.ones(1, 1, n, n, dtype=torch.bool).triu(1))
        if stage < pp - 1:
            torch.distributed.send(out.contiguous(), rank + tp)
        elif t == 0:
            numpy.save(work + "/logits.npy", out[0].numpy())
    torch.distributed.barrier()


def megatron_logits(folder, tokens):
    import numpy
    import torch
    warnings.filterwarnings("ignore")
    import megatron.core
    step = step_of(folder)
    tp = pp = 1  # torch_dist loads in any layout
    if not os.path.exists(step + "/common.pt"):
        ranks = [os.path.basename(path).split("_")[2:] for path in glob.glob(glob.escape(step) + "/mp_rank_*")]
        if not ranks:
            refuse(f"{step}: has neither common.pt nor mp_rank_*")
        tp, pp = 1 + max(int(rank[0]) for rank in ranks), 1 + max(int(rank[1]) if len(rank) > 1 else 0 for rank in ranks)
    with tempfile.TemporaryDirectory() as work:
        try:
            torch.multiprocessing.spawn(megatron_rank, (step, tp, pp, tokens, work), tp * pp)
        except torch.multiprocessing.ProcessExitedException:
            sys.exit(1)  # the rank has printed the reason
        return f"megatron-core {megatron.core.__version__}", torch.from_numpy(numpy.load(work + "/logits.npy"))


def main():
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not part of the result
    kind, folder, vocabulary, tokens = sys.argv[1:]
    compute = {"transformers": transformers_logits, "megatron-core": megatron_logits}[kind]
    try:
        library, logits = compute(folder, [int(token) for token in tokens.split(",")])
    except ImportError as error:
        refuse(f"{sys.executable}: {kind} cannot be imported: {error}")
    out.write(library.encode() + b"\n")
    out.write(logits[:, :int(vocabulary)].float().contiguous().numpy().astype("<f4").tobytes())
    out.close()


if __name__ == "__main__":
    main()
