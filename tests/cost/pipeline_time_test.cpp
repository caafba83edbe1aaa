// SPDX-License-Identifier: Apache-2.0
#include "cost/pipeline_time.hpp"

#include "base/types.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cost;
using lm::spec::PipelineShape;

TEST_CASE("bubbles in virtual time are those of the formula") {
    const auto bubble = [](const PipelineShape& shape, PipelineDurations durations) {
        durations.forward_s /= static_cast<double>(shape.n_chunks);
        durations.backward_s /= static_cast<double>(shape.n_chunks);
        const double busy = static_cast<double>(shape.n_micro_batches * shape.n_chunks) *
                            (durations.forward_s + durations.backward_s);
        return pipeline_time(shape, durations) / busy - 1.0;
    };
    for (const i64 stages : {4, 8, 64}) {
        for (const i64 chunks : {1, 2, 4}) {
            for (const i64 groups : {1, 2, 8}) {
                const PipelineShape shape{stages, chunks, groups * stages};
                CAPTURE(stages, chunks, groups);
                CHECK(bubble(shape, {1.0, 2.0, 0.0}) ==
                      Approx(pipeline_bubble(shape)).epsilon(0.02));
                CHECK(bubble(shape, {1.0, 2.0, 1e-4}) ==
                      Approx(pipeline_bubble(shape)).epsilon(0.02));
            }
        }
        // Fewer micro-batches than stages, and a number that is not a multiple of the stages.
        CHECK(bubble({stages, 1, 3}, {1.0, 2.0, 0.0}) ==
              Approx(static_cast<double>(stages - 1) / 3.0).epsilon(0.02));
        CHECK(bubble({stages, 1, 2 * stages + 1}, {1.0, 1.7, 0.0}) ==
              Approx(pipeline_bubble({stages, 1, 2 * stages + 1})).epsilon(0.02));
    }
}
