// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/diff.hpp"

#include <algorithm>
#include <cmath>

#include "ckpt/format/flat_pieces.hpp"
#include "ckpt/format/index.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;
using test::Buffers;
using test::local_of;

namespace {

std::vector<TensorDifference> differences(const std::string& a, const std::string& b) {
    std::vector<TensorDifference> list;
    diff(Checkpoint::open(a), Checkpoint::open(b), all_kinds,
         [&](const TensorDifference& difference) {
             if (!difference.equal()) list.push_back(difference);
         });
    return list;
}

}  // namespace

TEST_CASE("equal tensors of two layouts are equal, one changed number is found") {
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
