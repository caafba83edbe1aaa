// SPDX-License-Identifier: Apache-2.0
// A conversion between model formats: the request and the report of a conversion, and the output
// directory.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/named.hpp"
#include "ckpt/format/kind.hpp"
#include "io/atomic.hpp"
#include "spec/model.hpp"

namespace lm::convert {

enum class WeightFiles { safetensors, bin };

// The names that Megatron-LM gives to tensors. transformer_engine: names of megatron-core with the
// layers of TransformerEngine (Megatron-LM's default); local: with megatron-core's own layers
// (--transformer-impl local); classic: names before megatron-core.
enum class MegatronNames { transformer_engine, local, classic };
inline constexpr std::array megatron_names{
    Named{MegatronNames::transformer_engine, "transformer_engine"},
    Named{MegatronNames::local, "local"}, Named{MegatronNames::classic, "classic"}};

inline std::string_view name_of(MegatronNames names) {
    return name_in(megatron_names, names);
}

// The value of a tensor whose copies on the tensor-parallel ranks differ: rank 0's copy, or the
// mean of all copies.
enum class Replicas { rank0, mean };

struct ConversionRequest {
    std::string in;
    std::string out;
    // Type of the written weights. nullopt: fp32 for a Hugging Face model converted to a checkpoint
    // of lm-utils, else the type in the input.
    std::optional<DType> dtype;
    WeightFiles files = WeightFiles::safetensors;
    bool weights_only = false;  // ignore masters and moments of a Megatron checkpoint
    i64 vocab_size = 0;         // unpadded size in a Megatron checkpoint; 0: as its arguments state
    // Completes the model of a Megatron checkpoint whose arguments do not have the sizes of the
    // model. stated: what the checkpoint `path` states; a size that it does not state is 0. Throws
    // Error(usage) that names the missing flags. May be empty.
    std::function<spec::ModelConfig(const spec::ModelConfig& stated, const std::string& path)>
        complete;
    // The first flag that describes such a model; empty: none is given. It is refused when the
    // checkpoint states its arguments.
    std::string model_flag;
    i64 tp = 1;                // tensor ranks of a Megatron checkpoint to write
    i64 pp = 1;                // pipeline stages of a Megatron checkpoint to write
    i64 vocab_multiple = 128;  // divides the vocabulary rows of each Megatron tensor rank
    // Names in a checkpoint of Megatron-LM to write. nullopt: transformer_engine, or classic for a
    // model that megatron-core does not support.
    std::optional<MegatronNames> names;
    i64 max_shard_bytes = 5'000'000'000;
    // Directory of the tokenizer. Empty: the tokenizer in the step, or GPT-2's if the step has none
    // and the vocabulary has its size.
    std::string tokenizer;
    bool force = false;  // replace OUT
    std::string command_line;
    // Called with the complete temporary directory before this directory is renamed to OUT. If the
    // function throws, the conversion ends and OUT is not created. May be empty.
    std::function<void(const std::string& finished)> check;
    // Called with the tensor bytes written so far and the bytes of the whole conversion, by one
    // thread at a time; may be empty.
    std::function<void(i64 done, i64 total)> progress;
    // If set, compares the copies of tensors that every tensor-parallel rank of a Megatron
    // checkpoint stores. nullopt: reads only rank 0's copies.
    std::optional<Replicas> replicas;
    // Called for each tensor whose copies differ: its name, its kind (weight, master or moment) and
    // the largest difference from rank 0's copy. May be empty.
    std::function<void(const std::string& tensor, std::string_view kind, double largest)> drifted;
};

struct ConversionReport {
    i64 n_tensors = 0;
    i64 n_bytes = 0;
    bool has_tokenizer = false;
    i64 end_of_document = -1;
};

// Throws Error(failure) naming `path` and `tensor` when `values`, which were converted to `dtype`,
// are not all finite, because a conversion must not create infinities. Weights that need no
// conversion are copied unchanged, even infinite ones.
void check_converted(const std::string& path, const std::string& tensor, ckpt::SliceKind kind,
                     DType dtype, std::span<const std::byte> values);

// Creates the output directory of a conversion from `ins`, and removes the temporary directories
// that killed conversions to `out` have left. Throws Error(usage) when `out` has no parent
// directory, or exists and `force` is false. `force` replaces only a model: with `force`, throws
// Error(usage) when `out` is a file or directory without a model, the directory of a run, one of
// `ins`, or contains one of `ins`.
io::AtomicDirectory make_output(const std::string& out, const std::vector<std::string>& ins,
                                bool force);

}  // namespace lm::convert
