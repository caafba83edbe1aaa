// SPDX-License-Identifier: Apache-2.0
// The receives of a stage on a device that runs later than the host: no operation has ended when
// the host checks it, and an operation that is enqueued late begins late.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "run_stage.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::parallel;

namespace {

using Log = std::vector<std::string>;

// A group whose operations never end for the host. The device runs them in order.
class Ahead final : public comm::Group {
  public:
    Ahead(std::string name, int rank, Log& log) : Group(std::move(name), rank, 2), log_(log) {}
    void abort(const std::string&) noexcept override {}

  protected:
    i64 start(const comm::Operation& operation) override {
        log_.push_back(fmt::format("{} {}", name(), comm::name_of(operation.kind)));
        return ++n_started_;
    }
    i64 start_after(const comm::Operation& operation, Group& other, i64) override {
        const i64 handle = start(operation);
        log_.back() += " after a message of " + other.name();
        return handle;
    }
    void wait(i64) override {}
    bool done(i64) override { return false; }
    bool is_stream_ordered(i64) override { return true; }
    std::unique_ptr<Group> make_part(int, int, std::string) override { return nullptr; }

  private:
    Log& log_;
    i64 n_started_ = 0;
};

// One of two stages.
class Stage {
  public:
    Stage(i64 stage, i64 n_slots) : stage_(stage) {
        grid_.parallel.pp = 2;
        grid_.at.pp = stage;
        grid_.pipeline = std::make_unique<Ahead>("inputs", static_cast<int>(stage), log_);
        grid_.pipeline_backward =
            std::make_unique<Ahead>("gradients", static_cast<int>(stage), log_);
        const device::View view{memory_.data(), DType::fp32, {16}};
        const std::vector<StageBuffers> slots(static_cast<size_t>(n_slots), {view, view});
        transfers_ =
            std::make_unique<StageTransfers>(grid_, std::vector<std::vector<StageBuffers>>{slots});
    }

    Log train(i64 n_micro_batches) {
        return run(spec::pipeline_actions({2, 1, n_micro_batches}, stage_), true);
    }
    Log evaluate(i64 n_micro_batches) {
        return run(spec::pipeline_forward_actions({2, 1, n_micro_batches}, stage_), false);
    }

  private:
    Log run(const std::vector<spec::PipelineAction>& actions, bool training) {
        log_.clear();
        test::run_stage(*transfers_, actions, training, [&](const spec::PipelineAction& action) {
            const bool forward = action.op == spec::PipelineOp::forward;
            log_.push_back(
                fmt::format("{} {}", forward ? "forward" : "backward", action.micro_batch));
        });
        return log_;
    }

    i64 stage_;
    Log log_;
    Grid grid_ = single();
    std::vector<float> memory_ = std::vector<float>(16);
    std::unique_ptr<StageTransfers> transfers_;
};

}  // namespace

TEST_CASE("a gradient's receive is posted at once, after the send of the output from its buffer") {
    const Log log = Stage(0, 2).train(2);
    CHECK(log == Log{"forward 0", "inputs send", "gradients receive after a message of inputs",
                     "forward 1", "inputs send", "gradients receive after a message of inputs",
                     "backward 0", "backward 1"});
}

TEST_CASE("an input's receive is posted at once, after the send of the gradient from its buffer") {
    const Log log = Stage(1, 1).train(3);
    CHECK(log == Log{"inputs receive", "forward 0", "backward 0", "gradients send",
                     "inputs receive after a message of gradients", "forward 1", "backward 1",
                     "gradients send", "inputs receive after a message of gradients", "forward 2",
                     "backward 2", "gradients send"});
}

TEST_CASE("an evaluation's inputs are received as soon as the previous forward pass is enqueued") {
    const Log log = Stage(1, 1).evaluate(2);
    CHECK(log == Log{"inputs receive", "forward 0", "inputs receive", "forward 1"});
}

TEST_CASE("a step after an evaluation posts its receives as any other step") {
    Stage first(0, 2);
    const Log step = first.train(2);
    first.evaluate(2);
    CHECK(first.train(2) == step);
    Stage last(1, 1);
    const Log other_step = last.train(3);
    last.evaluate(3);
    Log after = last.train(3);
    // The buffer's last gradient was sent, and waited for, in the step before the evaluation. So
    // the first receive after the evaluation is like that of the first step.
    CHECK(after == other_step);
}
