// SPDX-License-Identifier: Apache-2.0
#include "cost/pipeline_time.hpp"

#include <algorithm>

#include "base/types.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cost;
using lm::spec::PipelineShape;

// Idle time divided by busy time: (p - 1) / (m * v) with p stages, m micro-batches and v chunks on
// each stage (arXiv 2104.04473, section 2.2.2).
TEST_CASE("bubbles in virtual time are those of the formula") {
    const auto wanted = [](const PipelineShape& shape) {
        return Approx(as_double(shape.n_stages - 1) /
                      as_double(shape.n_micro_batches * shape.n_chunks))
            .epsilon(0.02);
    };
    const auto bubble = [](const PipelineShape& shape, PipelineDurations durations) {
        PassDurations& pass = durations.passes[0];
        pass.forward_s /= static_cast<double>(shape.n_chunks);
        pass.backward_s /= static_cast<double>(shape.n_chunks);
        const double busy = static_cast<double>(shape.n_micro_batches * shape.n_chunks) *
                            (pass.forward_s + pass.backward_s);
        return pipeline_time(shape, durations) / busy - 1.0;
    };
    for (const i64 stages : {4, 8, 64}) {
        for (const i64 chunks : {1, 2, 4}) {
            for (const i64 groups : {1, 2, 8}) {
                const PipelineShape shape{stages, chunks, groups * stages};
                CAPTURE(stages, chunks, groups);
                CHECK(bubble(shape, {{{1.0, 2.0}}, 0.0}) == wanted(shape));
                CHECK(bubble(shape, {{{1.0, 2.0}}, 1e-4}) == wanted(shape));
            }
        }
        // Fewer micro-batches than stages, and a number that is not a multiple of the number of
        // stages.
        CHECK(bubble({stages, 1, 3}, {{{1.0, 2.0}}, 0.0}) == wanted({stages, 1, 3}));
        const PipelineShape odd{stages, 1, 2 * stages + 1};
        CHECK(bubble(odd, {{{1.0, 1.7}}, 0.0}) == wanted(odd));
    }
}

TEST_CASE("the slowest stage decides, and the events are its passes") {
    // Stages of 1, 3 and 2 s a micro-batch, forward and backward together.
    const PipelineDurations durations{{{0.4, 0.6}, {1, 2}, {0.5, 1.5}}};
    std::vector<PipelineEvent> events;
    const double step_s = pipeline_time({3, 1, 8}, durations, &events);
    CHECK(step_s > 8 * 3);           // all of the second stage
    CHECK(step_s <= 8 * 3 + 1 + 2);  // and one micro-batch on the others
    CHECK(events.size() == 3 * 8 * 2);
    double busy_s = 0;
    double end_s = 0;
    for (const PipelineEvent& event : events) {
        if (event.stage == 1) busy_s += event.end_s - event.start_s;
        end_s = std::max(end_s, event.end_s);
    }
    CHECK(busy_s == Approx(24));
    CHECK(end_s == step_s);
}
