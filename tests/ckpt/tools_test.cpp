// SPDX-License-Identifier: Apache-2.0
// verify, diff and prune.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "ckpt/diff.hpp"
#include "ckpt/flat_pieces.hpp"
#include "ckpt/index.hpp"
#include "ckpt/prune.hpp"
#include "ckpt/steps.hpp"
#include "ckpt/verify.hpp"
#include "support.hpp"

using namespace lm;
using namespace lm::ckpt;
using Catch::Matchers::Contains;
using test::Buffers;

namespace {

std::vector<TensorDifference> differences(const std::string& a, const std::string& b) {
    std::vector<TensorDifference> list;
    diff(Checkpoint::open(a), Checkpoint::open(b), all_kinds,
         [&](const TensorDifference& difference) {
             if (!difference.equal()) list.push_back(difference);
         });
    return list;
}

const spec::LocalTensor& local_of(const Buffers& buffers, const spec::ModelConfig& config,
                                  const std::string& name) {
    const auto table = spec::tensor_table(config);
    const auto found =
        std::ranges::find_if(buffers.layout.tensors, [&](const spec::LocalTensor& local) {
            return table[static_cast<size_t>(local.index)].name == name;
        });
    REQUIRE(found != buffers.layout.tensors.end());
    return *found;
}

}  // namespace

TEST_CASE("verify: a valid step, corrupt data, numbers that are not finite") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    Buffers buffers(config, {});
    buffers.fill(config, 1);
    const Generation generation = claim(scratch.path());
    const std::string step = save(generation, test::info_of(config, 7), buffers.pieces()).path;
    i64 progressed = 0;
    const Verification good = verify(step, [&](i64 bytes) { progressed = bytes; });
    CHECK(good.problems.empty());
    CHECK(good.n_tensors == static_cast<i64>(spec::tensor_table(config).size()));
    CHECK(good.n_slices == 3 * good.n_tensors);
    CHECK(good.n_bytes == 3 * 4 * spec::count_parameters(config).total());
    CHECK(progressed == good.n_bytes);

    const std::string file = step + "/optim-00000.safetensors";
    std::string bytes = test::read(file);
    bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 4);
    test::write(file, bytes);
    const Verification bad = verify(step, nullptr);
    REQUIRE(bad.problems.size() == 1);
    CHECK_THAT(bad.problems[0].line(), Contains("optim-00000.safetensors") &&
                                           Contains("tensor final_norm.bias") &&
                                           Contains("checksum"));

    const auto& local = local_of(buffers, config, "layers.1.attention.key.bias");
    buffers.exp_avg[static_cast<size_t>(local.offset) + 2] = NAN;
    buffers.exp_avg[static_cast<size_t>(local.offset) + 3] = std::numeric_limits<float>::infinity();
    const Verification nan =
        verify(save(generation, test::info_of(config, 8), buffers.pieces()).path, nullptr);
    REQUIRE(nan.problems.size() == 1);
    CHECK(nan.n_non_finite == 2);
    CHECK_THAT(nan.problems[0].line(), Contains("layers.1.attention.key.bias (exp_avg): 2 of 24"));

    io::remove_tree(step + "/manifest.json");
    CHECK_THAT(verify(step, nullptr).problems.at(0).line(), Contains("no manifest.json"));
}

TEST_CASE("verify: a tensor with overlapping slices and gaps") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    Buffers buffers(config, {});
    auto pieces = buffers.pieces();
    // The count is right, the places are not.
    Piece& word = pieces[0];
    word.flat_begin = 240;
    Piece again = word;
    again.flat_begin = 1000;
    again.flat_end = 1240;
    pieces.push_back(again);
    const std::string step = save(claim(scratch.path()), test::info_of(config, 1), pieces).path;
    const Verification result = verify(step, nullptr);
    REQUIRE(result.problems.size() == 1);
    CHECK_THAT(result.problems[0].line(),
               Contains("embedding.word.weight (weight): element 0 is in no"));
}

TEST_CASE("diff: equal tensors of two layouts are equal, one changed number is found") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    Buffers buffers(config, {});
    buffers.fill(config, 1);
    const Generation generation = claim(scratch.path());
    const std::string a = save(generation, test::info_of(config, 1), buffers.pieces()).path;
    const std::string temporary = begin_save(generation, 2);
    const i64 half = buffers.layout.n_elements / 2;
    std::vector<IndexReference> parts;
    parts.push_back(write_part(temporary, test::info_of(config, 2), 0, buffers.pieces(0, half)));
    parts.push_back(write_part(temporary, test::info_of(config, 2), 1,
                               buffers.pieces(half, buffers.layout.n_elements)));
    const std::string b = commit_save(generation, test::info_of(config, 2), parts).path;
    CHECK(differences(a, b).empty());

    const auto& local = local_of(buffers, config, "layers.1.mlp.up.weight");
    buffers.weight[static_cast<size_t>(local.offset) + 5] += 2.0F;
    const std::string c = save(generation, test::info_of(config, 3), buffers.pieces()).path;
    const auto list = differences(b, c);
    REQUIRE(list.size() == 1);
    CHECK(list[0].tensor == "layers.1.mlp.up.weight");
    CHECK(list[0].n_different == 1);
    CHECK(list[0].max == 2.0);
    const auto changed = static_cast<double>(buffers.weight[static_cast<size_t>(local.offset) + 5]);
    CHECK(list[0].relative == Approx(2.0 / std::max(std::abs(changed), std::abs(changed - 2.0))));
    CHECK(list[0].rms == Approx(2.0 / std::sqrt(96.0 * 24.0)));

    buffers.weight[static_cast<size_t>(local.offset) + 5] = NAN;
    const std::string d = save(generation, test::info_of(config, 4), buffers.pieces()).path;
    CHECK(std::isnan(differences(c, d).at(0).max));
    CHECK(differences(d, d).empty());

    auto weights = pieces_of(buffers.layout, SliceKind::weight, DType::fp32, buffers.weight.data());
    const std::string e = save(generation, test::info_of(config, 5), weights).path;
    CHECK(differences(d, e).at(0).only == "only in " + d);
}

TEST_CASE("prune: the steps that the rules keep") {
    const std::vector<i64> steps{100, 200, 250, 300, 350, 400};
    CHECK(steps_to_remove(steps, {2, 0, {}}, 400) == std::vector<i64>{100, 200, 250, 300});
    CHECK(steps_to_remove(steps, {0, 200, {}}, 400) == std::vector<i64>{100, 250, 300, 350});
    CHECK(steps_to_remove(steps, {0, 0, {250}}, 400) == std::vector<i64>{100, 200, 300, 350});
    CHECK(steps_to_remove(steps, {1, 0, {}}, 200) == std::vector<i64>{100, 250, 300, 350});
    CHECK(steps_to_remove(steps, {9, 0, {}}, std::nullopt).empty());
    CHECK(steps_to_remove({}, {1, 0, {}}, std::nullopt).empty());
}

TEST_CASE("prune: finish_removals completes an interrupted removal") {
    const test::ScratchDirectory scratch;
    for (const char* name : {"global_step1", "global_step2", "global_step3.tmp.removed"}) {
        io::make_directories(scratch / name);
    }
    remove_step(scratch.path(), 1);
    CHECK(steps_in(scratch.path()) == std::vector<i64>{2});
    finish_removals(scratch.path());
    CHECK(io::list_directory(scratch.path()) == std::vector<std::string>{"global_step2"});
}
