// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules: every micro-batch once in each direction, bounded memory, matching messages,
// no deadlock.
#include "spec/pipeline_schedule.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::spec;

namespace {

std::vector<PipelineShape> shapes() {
    std::vector<PipelineShape> all;
    for (const i64 stages : {1, 2, 3, 4, 7, 8}) {
        for (const i64 micro_batches : {1, 2, 3, 4, 5, 8, 16, 21}) {
            all.push_back({stages, 1, micro_batches});
        }
        for (const i64 chunks : {2, 3, 5}) {
            if (stages == 1) continue;
            for (const i64 groups : {1, 2, 5}) all.push_back({stages, chunks, groups * stages});
            for (const i64 n : {i64{1}, i64{5}, 3 * i64{stages} - 1})
                all.push_back({stages, chunks, n});
        }
    }
    return all;
}

std::string name_of(const PipelineShape& shape) {
    return fmt::format("{} stages, {} chunks, {} micro-batches", shape.n_stages, shape.n_chunks,
                       shape.n_micro_batches);
}

}  // namespace

TEST_CASE("each stage computes each micro-batch of each chunk forward once, then backward once") {
    for (const PipelineShape& shape : shapes()) {
        INFO(name_of(shape));
        for (i64 stage = 0; stage < shape.n_stages; ++stage) {
            std::set<std::pair<i64, i64>> forward, backward;
            for (const PipelineAction& action : pipeline_actions(shape, stage)) {
                const std::pair<i64, i64> work{action.chunk, action.micro_batch};
                if (action.op == PipelineOp::forward) CHECK(forward.insert(work).second);
                if (action.op != PipelineOp::backward) continue;
                CHECK(forward.contains(work));
                CHECK(backward.insert(work).second);
            }
            const auto n = static_cast<size_t>(shape.n_chunks * shape.n_micro_batches);
            CHECK(forward.size() == n);
            CHECK(backward.size() == n);
        }
    }
}

TEST_CASE("the backward passes of a chunk have the order of its forward passes") {
    for (const PipelineShape& shape : shapes()) {
        INFO(name_of(shape));
        for (i64 stage = 0; stage < shape.n_stages; ++stage) {
            std::map<i64, i64> next_forward, next_backward;
            for (const PipelineAction& action : pipeline_actions(shape, stage)) {
                if (action.op == PipelineOp::forward) {
                    CHECK(action.micro_batch == next_forward[action.chunk]++);
                }
                if (action.op == PipelineOp::backward) {
                    CHECK(action.micro_batch == next_backward[action.chunk]++);
                }
            }
        }
    }
}

TEST_CASE("the number of micro-batches in flight is that of the paper") {
    for (const PipelineShape& shape : shapes()) {
        INFO(name_of(shape));
        for (i64 stage = 0; stage < shape.n_stages; ++stage) {
            std::map<i64, i64> in_flight;
            i64 all = 0;
            i64 most = 0;
            for (const PipelineAction& action : pipeline_actions(shape, stage)) {
                const i64 change = action.op == PipelineOp::forward    ? 1
                                   : action.op == PipelineOp::backward ? -1
                                                                       : 0;
                most = std::max(most, all += change);
                CHECK((in_flight[action.chunk] += change) <= 2 * shape.n_stages);
            }
            // Warm-up fills the later stages and the later chunks.
            const i64 behind = shape.n_stages - 1 - stage;
            const i64 promised = shape.n_chunks == 1
                                     ? behind + 1
                                     : 2 * behind + (shape.n_chunks - 1) * shape.n_stages + 1;
            CHECK(most <= std::min(promised, shape.n_chunks * shape.n_micro_batches));
            if (shape.n_chunks > 1 && shape.n_micro_batches % shape.n_stages != 0) continue;
            CHECK(most == std::min(promised, shape.n_chunks * shape.n_micro_batches));
        }
    }
}

TEST_CASE("messages are received in the order of their channel, without deadlock") {
    // A channel holds one message: a send waits until the previous message has been received, a
    // receive waits for its message.
    for (const PipelineShape& shape : shapes()) {
        INFO(name_of(shape));
        const auto n = static_cast<size_t>(shape.n_stages);
        std::vector<std::vector<PipelineAction>> actions;
        for (i64 stage = 0; stage < shape.n_stages; ++stage) {
            actions.push_back(pipeline_actions(shape, stage));
        }
        struct Message {
            i64 virtual_stage, micro_batch;
            bool operator==(const Message&) const = default;
        };
        using Channel = std::tuple<bool, i64, i64>;  // direction, from, to
        std::map<Channel, std::deque<Message>> channels;
        std::vector<size_t> next(n);
        const auto step = [&](i64 stage) {
            const auto s = static_cast<size_t>(stage);
            if (next[s] == actions[s].size()) return false;
            const PipelineAction& action = actions[s][next[s]];
            const i64 here = action.chunk * shape.n_stages + stage;
            const i64 peer = pipeline_peer(shape, stage, action.op);
            using enum PipelineOp;
            if (action.op == send_forward || action.op == send_backward) {
                const bool is_forward = action.op == send_forward;
                auto& channel = channels[{is_forward, stage, peer}];
                if (!channel.empty()) return false;
                channel.push_back({is_forward ? here + 1 : here - 1, action.micro_batch});
            }
            if (action.op == receive_forward || action.op == receive_backward) {
                auto& channel = channels[{action.op == receive_forward, peer, stage}];
                if (channel.empty()) return false;
                CHECK(channel.front() == Message{here, action.micro_batch});
                channel.pop_front();
            }
            ++next[s];
            return true;
        };
        for (bool moved = true; moved;) {
            moved = false;
            for (i64 stage = 0; stage < shape.n_stages; ++stage) moved |= step(stage);
        }
        for (size_t s = 0; s < n; ++s) CHECK(next[s] == actions[s].size());
        for (const auto& [key, channel] : channels) CHECK(channel.empty());
    }
}

TEST_CASE("the actions of the first stage under 1F1B are those of the paper") {
    using enum PipelineOp;
    const std::vector<PipelineAction> expected = {
        {forward, 0, 0},      {send_forward, 0, 0},     {forward, 0, 1},
        {send_forward, 0, 1}, {receive_backward, 0, 0}, {backward, 0, 0},
        {forward, 0, 2},      {send_forward, 0, 2},     {receive_backward, 0, 1},
        {backward, 0, 1},     {receive_backward, 0, 2}, {backward, 0, 2}};
    CHECK(pipeline_actions({2, 1, 3}, 0) == expected);
}

TEST_CASE("the interleaved schedule needs two stages") {
    CHECK_NOTHROW(check_pipeline({4, 1, 3}));
    CHECK_NOTHROW(check_pipeline({4, 2, 8}));
    CHECK_NOTHROW(check_pipeline({4, 2, 6}));
    CHECK_THROWS_AS(check_pipeline({1, 2, 6}), Error);
}
