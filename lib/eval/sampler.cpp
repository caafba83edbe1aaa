// SPDX-License-Identifier: Apache-2.0
#include "eval/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/rng.hpp"

namespace lm::eval {

Sampler::Sampler(const Sampling& sampling, u64 sequence)
    : sampling_(sampling), key_(mix(stream_key(sampling.seed, "sampling"), sequence)) {}

i32 Sampler::choose(std::span<const float> logits, i64 index) {
    i32 best = 0;
    for (i32 id = 0; id < std::ssize(logits); ++id) {
        const float logit = logits[static_cast<size_t>(id)];
        if (logit > logits[static_cast<size_t>(best)] || std::isnan(logit)) best = id;
        if (std::isnan(logit)) break;
    }
    const float largest = logits[static_cast<size_t>(best)];
    if (!std::isfinite(largest)) {
        run_error("logits",
                  "the largest is {}: the checkpoint has corrupt weights: run lm-ckpt "
                  "verify",
                  largest);
    }
    return sampling_.temperature == 0 ? best : sample(logits, largest, index);
}

i32 Sampler::sample(std::span<const float> logits, float largest, i64 index) {
    ids_.resize(logits.size());
    std::iota(ids_.begin(), ids_.end(), 0);
    const auto more_probable = [&](i32 a, i32 b) {
        const float x = logits[static_cast<size_t>(a)];
        const float y = logits[static_cast<size_t>(b)];
        return x != y ? x > y : a < b;
    };
    if (sampling_.top_k > 0 && sampling_.top_k < std::ssize(ids_)) {
        std::nth_element(ids_.begin(), ids_.begin() + sampling_.top_k - 1, ids_.end(),
                         more_probable);
        ids_.resize(static_cast<size_t>(sampling_.top_k));
    }
    if (sampling_.top_p < 1)
        std::ranges::sort(ids_, more_probable);
    else
        std::ranges::sort(ids_);
    weights_.clear();
    for (const i32 id : ids_) {
        const double logit = logits[static_cast<size_t>(id)];
        weights_.push_back(std::exp((logit - largest) / sampling_.temperature));
    }
    double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    if (sampling_.top_p < 1) {
        double sum = 0;
        size_t n = 0;
        while (n < weights_.size() && (n == 0 || sum < sampling_.top_p * total)) {
            sum += weights_[n++];
        }
        weights_.resize(n);
        total = sum;
    }
    double rest = uniform(key_, static_cast<u64>(index)) * total;
    size_t at = 0;
    while (at + 1 < weights_.size() && rest >= weights_[at]) rest -= weights_[at++];
    return ids_[at];
}

}  // namespace lm::eval
