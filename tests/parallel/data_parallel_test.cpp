// SPDX-License-Identifier: Apache-2.0
// Buckets and their parts; reduction of gradients and gathering of weights.
#include "parallel/data_parallel.hpp"

#include <mutex>

#include "comm/threads/run_ranks.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::parallel;

TEST_CASE("buckets cover the buffer once, in equal parts, the shared table in its own buckets") {
    for (const i64 n : {32, 64, 992, 4000}) {
        for (const i64 dp : {1, 2, 3, 7, 8}) {
            for (const i64 size : {1, 100, 640, 100000}) {
                for (const i64 shared : {i64{0}, i64{17}, n / 2}) {
                    INFO(n << " elements, " << dp << " ranks, buckets of " << size);
                    const std::vector<Range> buckets = divide_into_buckets(n, dp, size, shared);
                    i64 at = 0;
                    bool shared_apart = shared == 0;
                    for (const Range& bucket : buckets) {
                        CHECK(bucket.begin == at);
                        CHECK(bucket.size() > 0);
                        CHECK(bucket.size() % (dp * spec::block_alignment) == 0);
                        for (i64 r = 0; r < dp; ++r) {
                            CHECK(part_of(bucket, dp, r).begin == at);
                            at = part_of(bucket, dp, r).end;
                        }
                        shared_apart |= bucket.end == padded_elements(shared, dp);
                    }
                    CHECK(shared_apart);
                    CHECK(at == padded_elements(n, dp));
                    CHECK(at - n < dp * spec::block_alignment);
                }
            }
        }
    }
}

TEST_CASE("intersections of ranges") {
    CHECK(intersection({{0, 10}, {20, 30}}, {{5, 25}}) == std::vector<Range>{{5, 10}, {20, 25}});
    CHECK(intersection({{0, 10}}, {{10, 20}}).empty());
    CHECK(intersection({{0, 4}, {4, 8}}, {{1, 3}, {3, 6}, {7, 8}}) ==
          std::vector<Range>{{1, 3}, {3, 4}, {4, 6}, {7, 8}});
    CHECK(intersection({}, {{0, 1}}).empty());
}

TEST_CASE("gradients are summed where a rank updates, and updated weights reach all") {
    struct Case {
        int ranks, zero_stage;
        bool overlap;
    };
    for (const Case& c : {Case{1, 0, false}, Case{1, 1, true}, Case{2, 0, true}, Case{2, 1, false},
                          Case{3, 1, true}, Case{5, 0, false}, Case{5, 1, true}}) {
        INFO(c.ranks << " ranks, stage " << c.zero_stage << ", overlap " << c.overlap);
        constexpr i64 n = 992;
        const i64 padded = padded_elements(n, c.ranks);
        std::mutex mutex;
        comm::run_ranks(c.ranks, [&](comm::Group& group) {
            std::vector<float> weights(static_cast<size_t>(padded), -1.0F);
            std::vector<float> gradients(static_cast<size_t>(padded));
            const auto view = [padded](std::vector<float>& of) {
                return device::View{of.data(), DType::fp32, {padded}};
            };
            DataParallel data(group, c.zero_stage,
                              {.bucket_elements = 200,
                               .overlap_grad_reduce = c.overlap,
                               .overlap_param_gather = c.overlap},
                              view(weights), view(gradients), n, 100);
            for (int step = 0; step < 3; ++step) {
                for (size_t i = 0; i < gradients.size(); ++i) {
                    gradients[i] = static_cast<float>((group.rank() + 1) * (step + 1)) +
                                   static_cast<float>(i % 7);
                }
                for (i64 from = n; from > 0; from -= 130) data.gradients_final(from);
                data.finish_reduce();
                const auto ranks = static_cast<float>(c.ranks);
                const float sum = ranks * (ranks + 1) / 2 * static_cast<float>(step + 1);
                for (const Range& range : data.updated()) {
                    for (i64 i = range.begin; i < range.end; ++i) {
                        const auto at = static_cast<size_t>(i);
                        const float wanted = sum + ranks * static_cast<float>(i % 7);
                        const std::lock_guard lock(mutex);
                        if (gradients[at] != wanted) FAIL(i << ": " << gradients[at]);
                        weights[at] = gradients[at];
                    }
                }
                data.start_gather();
                for (i64 end = 100; end < n; end += 100) data.wait_weights(end);
                data.finish_gather();
                for (size_t i = 0; i < weights.size(); ++i) {
                    const float wanted = sum + ranks * static_cast<float>(i % 7);
                    const std::lock_guard lock(mutex);
                    if (weights[i] != wanted) FAIL(i << ": " << weights[i]);
                }
            }
        });
    }
}
