// SPDX-License-Identifier: Apache-2.0
// When the pipeline posts its receives where the host runs ahead of the device: nothing has ended
// yet when the host comes by, and what is told to the device late begins late.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "parallel/pipeline.hpp"

using namespace lm;
using namespace lm::parallel;

namespace {

using Log = std::vector<std::string>;

// Operations never end, but the device orders them.
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
        log_.back() += " behind a message of " + other.name();
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

Log actions_of(i64 stage, i64 n_slots, i64 n_micro_batches) {
    Log log;
    Grid grid = single();
    grid.parallel.pp = 2;
    grid.at.pp = stage;
    grid.pipeline = std::make_unique<Ahead>("inputs", static_cast<int>(stage), log);
    grid.pipeline_backward = std::make_unique<Ahead>("gradients", static_cast<int>(stage), log);
    std::vector<float> memory(16);
    const device::View view{memory.data(), DType::fp32, {16}};
    const std::vector<Border> slots(static_cast<size_t>(n_slots), {view, view});
    const auto told = [&log](const char* what) {
        return [&log, what](i64, i64 micro_batch) {
            log.push_back(fmt::format("{} {}", what, micro_batch));
        };
    };
    Pipeline pipeline(grid, {slots}, told("forward"), told("backward"));
    pipeline.train(n_micro_batches);
    return log;
}

}  // namespace

TEST_CASE("a gradient's receive is posted behind the message that left its place, at once") {
    const Log log = actions_of(0, 2, 2);
    CHECK(log == Log{"forward 0", "inputs send", "gradients receive behind a message of inputs",
                     "forward 1", "inputs send", "gradients receive behind a message of inputs",
                     "backward 0", "backward 1"});
}

TEST_CASE("an input's receive is posted behind the gradient that left its place, at once") {
    const Log log = actions_of(1, 1, 3);
    CHECK(log == Log{"inputs receive", "forward 0", "backward 0", "gradients send",
                     "inputs receive behind a message of gradients", "forward 1", "backward 1",
                     "gradients send", "inputs receive behind a message of gradients", "forward 2",
                     "backward 2", "gradients send"});
}
