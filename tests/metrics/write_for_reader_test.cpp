// SPDX-License-Identifier: Apache-2.0
// Not run by itself (hidden tag): writes the event files that
// tests/live/tensorboard_reader.py reads back, into $LM_TEST_OUT.
#include <cstdlib>

#include "metrics/tensorboard.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::metrics;

namespace {

void train(TensorBoard& board, i64 from, i64 to, double offset) {
    for (i64 k = from; k <= to; ++k) {
        StepRecord r;
        r.iteration = k;
        r.consumed_samples = 8 * k;
        r.consumed_tokens = 8 * 2048 * k;
        r.learning_rate = 1e-4 * static_cast<double>(k);
        r.loss = offset + static_cast<double>(k);
        r.global_batch = 8;
        r.loss_scale = r.grad_norm = r.num_zeros = r.params_norm = 1.0;
        r.seq_length = 64 * k;
        r.step_s = 2.0;
        r.mfu = 0.25;
        board.iteration(r);
        if (k % 2 == 0) board.interval(r);
    }
}

}  // namespace

TEST_CASE("event files of a run that resumed at iteration 7", "[.live]") {
    const char* out = std::getenv("LM_TEST_OUT");
    REQUIRE(out != nullptr);
    TensorBoardOptions options;
    options.directory = out;
    options.batch_size = options.validation_ppl = options.timers = options.megatron_lm = true;
    options.queue_size = 5;
    {
        auto first = TensorBoard::open(options);
        train(first, 1, 10, 0.0);
    }
    options.resume = TensorBoardOptions::Start{7, 7 * 8, 7 * 8 * 2048};
    auto second = TensorBoard::open(options);
    train(second, 7, 12, 100.0);
    ValidationRecord v;
    v.iteration = 12;
    v.consumed_samples = 96;
    v.consumed_tokens = 96 * 2048;
    v.loss = 3.5;
    second.validation(v);
    v.name = "books";
    second.validation(v);
}
