// SPDX-License-Identifier: Apache-2.0
// --save-retain: its rules, and the ranks that verify a step before others are deleted.
#include "train/save/retention.hpp"
#include "train/config/save_rules.hpp"

#include <chrono>
#include <thread>

#include "base/error.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/support.hpp"
#include "comm/threads/run_ranks.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::train;

namespace {

// Saves steps 1, 2 and 3 of a grid with four index parts; `break_newest` changes step 3. Applies
// keep-last=2 on `n_ranks` ranks after step 3. Returns the steps that are left.
std::vector<i64> retain_on_ranks(int n_ranks, bool in_the_loop,
                                 const std::function<void(const std::string&)>& break_newest = {}) {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const ckpt::Generation generation = ckpt::claim(scratch.path());
    test::Buffers buffers(config, {});
    buffers.fill(config, 1);
    for (const i64 step : {1, 2, 3}) {
        ckpt::begin_save(generation, step);
        const std::string temporary = ckpt::temporary_path(generation, step);
        const ckpt::SaveInfo info = test::info_of(config, step);
        std::vector<ckpt::IndexReference> parts;
        const i64 n = buffers.layout.n_elements;
        for (i64 writer = 0; writer < 4; ++writer) {
            const auto pieces = buffers.pieces(n * writer / 4, n * (writer + 1) / 4);
            parts.push_back(ckpt::write_part(temporary, info, writer, pieces));
        }
        const std::string path = ckpt::commit_save(generation, info, parts).path;
        if (step == 3 && break_newest) break_newest(path);
    }
    comm::run_ranks(n_ranks, [&](comm::Group& world) {
        Retention retention(world, generation, parse_retain("keep-last=2"));
        retention.start(3);
        while (in_the_loop) {
            i64 busy = retention.is_busy() ? 1 : 0;
            world.all_reduce({&busy, DType::int64, {1}}, comm::Reduction::max);
            retention.delete_if_verified(busy != 0);
            if (busy == 0) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        retention.finish(3);
    });
    return ckpt::steps_in(scratch.path());
}

}  // namespace

TEST_CASE("--save-retain has the rules of lm-ckpt prune") {
    const ckpt::PruneRules rules = parse_retain(
        "keep-last=3,keep=5,7,keep-schedule=10@100,1500,keep-every=1000,weights-only-older-than=2");
    CHECK(rules.keep.last == 3);
    CHECK(rules.keep.every == 1000);
    CHECK(rules.keep.steps == std::vector<i64>{5, 7});
    REQUIRE(rules.keep.schedule.size() == 2);
    CHECK(rules.keep.schedule[1].interval == 1500);
    CHECK(rules.full_steps == 2);
    for (const char* text :
         {"", "3", "keep-last", "keep-last=0", "keep-first=1", "keep-last=x", "keep-last=1,2"}) {
        CHECK_THROWS_AS(parse_retain(text), Error);
    }
    CHECK_THROWS_WITH(parse_retain("2"), HasInOrder("--save-retain: ", "RULE=VALUE", "'2'"));
}

TEST_CASE("the ranks verify the newest step together, then older ones are deleted") {
    for (const int n_ranks : {1, 3, 4, 9}) {
        INFO(n_ranks << " ranks");
        CHECK(retain_on_ranks(n_ranks, n_ranks % 2 == 0) == std::vector<i64>{2, 3});
    }
}

TEST_CASE("nothing is deleted when any rank finds the newest step corrupt") {
    const std::vector<i64> all{1, 2, 3};
    for (const char* const file : {"weights-00000", "weights-00003", "optim-00002"}) {
        CHECK(retain_on_ranks(9, false, [&](const std::string& step) {
                  const std::string path = fmt::format("{}/{}.safetensors", step, file);
                  std::string bytes = test::read(path);
                  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 4);
                  test::write(path, bytes);
              }) == all);
    }
    CHECK(retain_on_ranks(3, true, [](const std::string& step) {
              test::write(step + "/index-00001.json", "{}");
          }) == all);
}
