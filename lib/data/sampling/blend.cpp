// SPDX-License-Identifier: Apache-2.0
#include "data/sampling/blend.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "data/sampling/permutation.hpp"

namespace lm::data {
namespace {

using Wide = __int128;

// Adds in the order of numpy (numpy/core/src/umath, pairwise_sum): an array of up to 128 numbers is
// added in eight partial sums, a larger array is halved.
double pairwise_sum(const double* values, size_t n) {
    if (n < 8) {
        double sum = 0.0;
        for (size_t k = 0; k < n; ++k) sum += values[k];
        return sum;
    }
    if (n <= 128) {
        std::array<double, 8> r;
        std::copy_n(values, 8, r.begin());
        size_t k = 8;
        for (; k + 8 <= n; k += 8) {
            for (size_t j = 0; j < 8; ++j) r[j] += values[k + j];
        }
        double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        for (; k < n; ++k) sum += values[k];
        return sum;
    }
    size_t half = n / 2;
    half -= half % 8;
    return pairwise_sum(values, half) + pairwise_sum(values + half, n - half);
}

}  // namespace

std::vector<double> normalized_like_numpy(std::span<const double> weights) {
    const double sum = pairwise_sum(weights.data(), weights.size());
    std::vector<double> out;
    for (const double weight : weights) out.push_back(weight / sum);
    return out;
}

ProportionalBlend::ProportionalBlend(std::span<const double> weights, u64 key) : key_(key) {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    for (const double weight : weights) {
        LM_CHECK(weight > 0 && std::isfinite(weight), "expected a positive weight, got {}", weight);
        // Shares are integers in units of 2^-40 of the sum of the weights. A share is at least 1,
        // so that every dataset is used.
        shares_.push_back(std::max<i64>(1, std::llround(weight / sum * 0x1.0p40)));
        total_ += shares_.back();
    }
}

// Adds the samples of `block` to `counts`. Each dataset gets the integer part of its share of all
// samples up to the end of the block. The remaining samples go to the datasets whose next sample is
// due first.
void ProportionalBlend::count_block(i64 block, std::span<i64> counts) const {
    const i64 end = (block + 1) * blend_block;
    i64 left = end;
    std::vector<size_t> may_have_one_more;
    for (size_t d = 0; d < shares_.size(); ++d) {
        const Wide scaled = Wide{shares_[d]} * end;
        const i64 floor = static_cast<i64>(scaled / total_);
        if (counts[d] <= floor) {
            counts[d] = floor;
            if (scaled % total_ != 0) may_have_one_more.push_back(d);
        }
        left -= counts[d];
    }
    LM_CHECK(left >= 0 && left <= static_cast<i64>(may_have_one_more.size()),
             "expected 0 to {} samples left for the datasets, got {}", may_have_one_more.size(),
             left);
    // Sample j of dataset d is due at n = j * total / share. Compares the quotients j / share
    // without rounding.
    const auto sooner = [&](size_t a, size_t b) {
        const Wide due_a = Wide{counts[a] + 1} * shares_[b];
        const Wide due_b = Wide{counts[b] + 1} * shares_[a];
        return due_a != due_b ? due_a < due_b : a < b;
    };
    std::sort(may_have_one_more.begin(), may_have_one_more.end(), sooner);
    for (i64 k = 0; k < left; ++k) ++counts[may_have_one_more[static_cast<size_t>(k)]];
}

void ProportionalBlend::advance(i64 block, i64 n_samples, std::span<i64> counts,
                                std::span<BlendEntry> entries) const {
    if (n_samples == blend_block && entries.empty()) return count_block(block, counts);
    const std::vector<i64> before(counts.begin(), counts.end());
    count_block(block, counts);
    std::vector<i64> ends;  // [n_datasets] end of each dataset's slots in the block
    for (size_t d = 0; d < counts.size(); ++d) {
        ends.push_back((ends.empty() ? 0 : ends.back()) + counts[d] - before[d]);
    }
    const std::vector<i64> after(counts.begin(), counts.end());
    std::copy(before.begin(), before.end(), counts.begin());
    const Permutation order(blend_block, mix(key_, static_cast<u64>(block)));
    for (i64 k = 0; k < n_samples; ++k) {
        const i64 slot = order(k);
        const size_t d =
            static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), slot) - ends.begin());
        ++counts[d];
        if (entries.empty()) continue;
        entries[static_cast<size_t>(k)] = {static_cast<i32>(d), after[d] - (ends[d] - slot)};
    }
}

void GreedyBlend::advance(i64 block, i64 n_samples, std::span<i64> counts,
                          std::span<BlendEntry> entries) const {
    for (i64 k = 0; k < n_samples; ++k) {
        const double x = std::max(static_cast<double>(block * blend_block + k), 1.0);
        size_t best = 0;
        double largest = weights_[0] * x - static_cast<double>(counts[0]);
        for (size_t d = 1; d < weights_.size(); ++d) {
            const double lag = weights_[d] * x - static_cast<double>(counts[d]);
            if (lag > largest) {
                largest = lag;
                best = d;
            }
        }
        if (!entries.empty()) {
            entries[static_cast<size_t>(k)] = {static_cast<i32>(best), counts[best]};
        }
        ++counts[best];
    }
}

}  // namespace lm::data
