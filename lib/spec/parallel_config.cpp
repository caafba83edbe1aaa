// SPDX-License-Identifier: Apache-2.0
#include "spec/parallel_config.hpp"

#include "base/error.hpp"
#include "base/shape.hpp"

namespace lm::spec {

i64 padded_vocab(const ModelConfig& config, const ParallelConfig& parallel) {
    const i64 multiple = checked_mul(parallel.vocab_divisible_by, parallel.tp);
    if (parallel.pad_vocab_to == 0) return round_up(config.vocab_size, multiple);
    if (parallel.pad_vocab_to < config.vocab_size) {
        usage_error("--pad-vocab-size-to", "{} is less than the vocabulary of {}",
                    parallel.pad_vocab_to, config.vocab_size);
    }
    if (parallel.pad_vocab_to % parallel.tp != 0) {
        usage_error("--pad-vocab-size-to", "{} is not a multiple of the tensor-parallel size {}",
                    parallel.pad_vocab_to, parallel.tp);
    }
    return parallel.pad_vocab_to;
}

}  // namespace lm::spec
