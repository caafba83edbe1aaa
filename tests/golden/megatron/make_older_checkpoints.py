#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_older_checkpoints.py FOLDER: does the same as make_checkpoints.py, but with megatron-core 0.12.1, which writes the form
fully_sharded_model_space of the distributed optimizer; later versions cannot write it. Replaces interfaces of torch,
numpy and megatron-core that have changed since then (README.md)."""
import os
import sys

import make_checkpoints as newer

SIZES = {name: sizes for name, (sizes, _, _, _) in newer.MODELS.items()}
FORMS = ("fully_sharded_model_space",)
newer.MODELS = {"older": (SIZES["gpt2"], (2, 1, 2), 500, FORMS), "older_llama": (SIZES["llama"], (1, 2, 2), None, FORMS)}
newer.LLAMAS += ("older_llama",)


def adapt():
    """Gives torch 2.15, numpy 2 and megatron-core 0.12.1 the interfaces that make_checkpoints.py expects."""
    import numpy
    from torch.distributed.checkpoint import filesystem
    numpy.product = numpy.prod
    write_item = filesystem._write_item
    filesystem._write_item = lambda *args: write_item(*args, filesystem.SerializationFormat.TORCH_SAVE)
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.models import gpt
    from megatron.core.optimizer import distrib_optimizer, optimizer
    for name in ("is_pipeline_first_stage", "is_pipeline_last_stage"):
        setattr(parallel_state, name, lambda found=getattr(parallel_state, name), **_: found())
    model, save = gpt.GPTModel, dist_checkpointing.save
    gpt.GPTModel = lambda *args, vp_stage=None, **kwargs: model(*args, **kwargs)
    dist_checkpointing.save = lambda *args, content_metadata=None, **kwargs: save(*args, **kwargs)
    distrib_optimizer.quantize_param_shard = lambda *args, **kwargs: None  # for FP8, with TransformerEngine
    for kind in (distrib_optimizer.DistributedOptimizer, optimizer.Float16OptimizerWithFloat16Params,
                 optimizer.FP32Optimizer, optimizer.ChainedOptimizer):
        kind.sharded_state_dict = lambda self, state, metadata=None, found=kind.sharded_state_dict, **kwargs: found(
            self, state, **kwargs)


if __name__ == "__main__":
    newer.__file__ = os.path.abspath(__file__)
    if newer.RANK is not None:
        adapt()
        newer.train(sys.argv[2], sys.argv[1])
    else:
        newer.main()
