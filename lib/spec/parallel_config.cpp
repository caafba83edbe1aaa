// SPDX-License-Identifier: Apache-2.0
#include "spec/parallel_config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/shape.hpp"

namespace lm::spec {
namespace {

// The dimensions from the one that changes fastest from rank to rank.
constexpr auto nested = [] {
    std::array<Dimension, dimensions.size()> order = dimensions;
    for (const Dimension& each : dimensions) order[static_cast<size_t>(each.nesting)] = each;
    return order;
}();
static_assert(
    [] {
        int n = 0;
        for (const Dimension& each : nested) {
            if (each.nesting != n++) return false;
        }
        return true;
    }(),
    "expected each nesting of dimensions once: 0, 1, 2, ...");

}  // namespace

const Dimension& dimension_of(i64 ParallelConfig::*size) {
    const auto* const found = std::ranges::find(dimensions, size, &Dimension::size);
    LM_CHECK(found != dimensions.end(), "expected the size of a dimension, got another member");
    return *found;
}

i64 ParallelConfig::n_ranks() const {
    i64 n = 1;
    for (const Dimension& each : dimensions) n = checked_mul(n, this->*each.size);
    return n;
}

i64 ParallelConfig::ranks_per_replica() const {
    ParallelConfig replica = *this;
    replica.dp = 1;
    return replica.n_ranks();
}

Coordinates coordinates_of(const ParallelConfig& parallel, i64 rank) {
    Coordinates at;
    for (const Dimension& each : nested) {
        at.*each.at = rank % parallel.*each.size;
        rank /= parallel.*each.size;
    }
    return at;
}

i64 rank_of(const ParallelConfig& parallel, const Coordinates& at) {
    i64 rank = 0;
    i64 stride = 1;
    for (const Dimension& each : nested) {
        rank += at.*each.at * stride;
        stride *= parallel.*each.size;
    }
    return rank;
}

std::string replica_text(const ParallelConfig& parallel) {
    std::string text;
    for (const Dimension& each : dimensions) {
        if (each.size == &ParallelConfig::dp) continue;
        text += fmt::format("{}{} {}", text.empty() ? "" : " x ", parallel.*each.size, each.name);
    }
    return text;
}

std::string sizes_text(const ParallelConfig& parallel) {
    return fmt::format("{} x {} data", replica_text(parallel), parallel.dp);
}

std::string short_sizes_text(const ParallelConfig& parallel) {
    std::string text;
    for (const Dimension& each : dimensions) {
        text += fmt::format("{}{}{}", text.empty() ? "" : " ", each.label, parallel.*each.size);
    }
    return text;
}

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
