// SPDX-License-Identifier: Apache-2.0
// The arguments that Megatron-LM and Megatron-DeepSpeed save with a checkpoint
// (argparse.Namespace).
#pragma once

#include <string>

#include "ckpt/format/manifest.hpp"
#include "convert/conversion.hpp"
#include "convert/torch/pickle_value.hpp"

namespace lm::convert {

struct MegatronModel {
    spec::ModelConfig config;
    i64 padded_vocab = 0;
    bool vocab_known = false;  // false: config.vocab_size is padded_vocab
    // The end-of-document id may be vocab_size, because the NullTokenizer of older Megatron-LM adds
    // it after the vocabulary.
    bool eod_after_vocab = false;
    i64 tp = 1;
    i64 pp = 1;
    i64 virtual_stages = 1;
    i64 data_parallel = 1;
    // The gradient buckets of the distributed optimizer.
    bool overlap_grad_reduce = false;
    i64 bucket_size = 0;  // 0: Megatron's default
    i64 consumed_samples = 0;
    i64 consumed_tokens = -1;  // -1: not stated
    i64 seed = 0;
};

// Returns the argument of the flag that chooses this activation and no other: "squared_relu".
// Returns
// "" if there is none (spec::switch_of()).
std::string argument_of(spec::Activation activation);

// What the files of a checkpoint show without arguments.
struct MegatronFiles {
    i64 tp = 1;
    i64 pp = 1;
    i64 word_rows = 0;  // rows of a tensor rank's word embeddings; 0: unknown
};

// Reads the model of `args`, which may be None. `checkpoint_info` is the dict "checkpoint_info"
// that BigScience's fork saves, or nullptr. `files` has the values of missing arguments;
// request.complete() gives the missing sizes of the model. request.vocab_size > 0 replaces the
// unpadded size of the vocabulary. Throws Error(usage) for a vocabulary below the size that the
// checkpoint states, and for an argument that lm-utils does not support; Error(failure) for a
// missing or invalid argument. `path`: the file that errors name.
MegatronModel megatron_model(const PickleValue& args, const PickleValue* checkpoint_info,
                             const ConversionRequest& request, const MegatronFiles& files,
                             const std::string& path);

}  // namespace lm::convert
