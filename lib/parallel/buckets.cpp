// SPDX-License-Identifier: Apache-2.0
#include "parallel/buckets.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/shape.hpp"

namespace lm::parallel {

i64 default_bucket_elements(i64 dp_size) {
    return std::max<i64>(40'000'000, 1'000'000 * dp_size);
}

i64 padded_elements(i64 n_elements, i64 dp_size) {
    return round_up(n_elements, checked_mul(spec::block_alignment, dp_size));
}

std::vector<Range> divide_into_buckets(i64 n_elements, i64 dp_size, i64 bucket_elements,
                                       i64 shared_end) {
    LM_CHECK(bucket_elements >= 1 && shared_end <= n_elements,
             "expected bucket_elements >= 1 and shared_end <= {}, got {} and {}", n_elements,
             bucket_elements, shared_end);
    const i64 end = padded_elements(n_elements, dp_size);
    const i64 size = padded_elements(bucket_elements, dp_size);
    const i64 shared = padded_elements(shared_end, dp_size);
    std::vector<Range> buckets;
    const auto cut = [&](i64 from, i64 to) {
        for (; from < to; from = buckets.back().end) {
            buckets.push_back({from, std::min(from + size, to)});
        }
    };
    cut(0, shared);
    cut(shared, end);
    return buckets;
}

Range part_of(const Range& bucket, i64 dp_size, i64 dp_rank) {
    const i64 part = bucket.size() / dp_size;
    return {bucket.begin + dp_rank * part, bucket.begin + (dp_rank + 1) * part};
}

}  // namespace lm::parallel
