// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/verify.hpp"

#include <cmath>
#include <limits>

#include "io/block_file.hpp"
#include "io/checked.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;
using test::Buffers;
using test::local_of;

TEST_CASE("verify reports corrupt data, numbers that are not finite, and nothing of a valid step") {
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
    CHECK_THAT(bad.problems[0].line(), ContainsSubstring("optim-00000.safetensors") &&
                                           ContainsSubstring("tensor final_norm.bias") &&
                                           ContainsSubstring("checksum"));

    const auto& local = local_of(buffers, config, "layers.1.attention.key.bias");
    buffers.exp_avg[static_cast<size_t>(local.offset) + 2] = NAN;
    buffers.exp_avg[static_cast<size_t>(local.offset) + 3] = std::numeric_limits<float>::infinity();
    const Verification nan =
        verify(save(generation, test::info_of(config, 8), buffers.pieces()).path, nullptr);
    REQUIRE(nan.problems.size() == 1);
    CHECK(nan.n_non_finite == 2);
    CHECK_THAT(nan.problems[0].line(),
               ContainsSubstring("layers.1.attention.key.bias (exp_avg): 2 of 24"));

    io::remove_tree(step + "/manifest.json");
    CHECK_THAT(verify(step, nullptr).problems.at(0).line(), ContainsSubstring("no manifest.json"));
}

TEST_CASE("a step that is replaced while it is verified is verified again") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const auto save_in = [&](const std::string& directory, i64 salt) {
        Buffers buffers(config, {});
        buffers.fill(config, salt);
        return save(claim(scratch / directory), test::info_of(config, 7), buffers.pieces()).path;
    };
    const std::string step = save_in("run", 1);
    const std::string other = save_in("other", 2);
    int n_swaps = 0;
    const Verification result = verify(step, [&](i64) {
        if (n_swaps++ > 0) return;
        io::checked::rename(step, scratch / "aside");
        io::checked::rename(other, step);
    });
    CHECK(n_swaps > 1);
    CHECK(result.problems.empty());
}

TEST_CASE("verify reports a tensor with overlapping slices and gaps") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    Buffers buffers(config, {});
    auto pieces = buffers.pieces();
    // The slices have the right number of elements, but overlap and leave gaps.
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
               ContainsSubstring("embedding.word.weight (weight): element 0 "));
}

TEST_CASE("shares of any number of ranks verify every byte once") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const std::string step =
        test::save_grid(scratch.path(), config, {.tp = 2, .pp = 2}, 7, 1);  // four index parts
    const i64 n_bytes = verify(step, nullptr).n_bytes;
    const std::string manifest = test::read(step + "/manifest.json");
    const auto check = [&](const std::string& problem) {
        for (const i64 count : {1, 2, 3, 4, 5, 11, 16, 40}) {
            i64 n_read = 0;
            i64 n_found = 0;
            for (i64 index = 0; index < count; ++index) {
                const Verification share = verify_share(step, {index, count}, manifest, nullptr);
                n_read += share.n_bytes;
                n_found += std::ssize(share.problems);
                for (const Problem& found : share.problems)
                    CHECK_THAT(found.line(), ContainsSubstring(problem));
            }
            INFO(count << " ranks");
            CHECK(n_read == n_bytes);
            CHECK(n_found == (problem.empty() ? 0 : 1));
        }
    };
    check("");
    const std::string file = step + "/weights-00002.safetensors";
    const std::string good = test::read(file);
    for (const size_t at : {good.size() - 3, size_t{40}}) {  // data, header
        std::string bytes = good;
        bytes[at] = static_cast<char>(bytes[at] ^ 4);
        test::write(file, bytes);
        check("weights-00002.safetensors");
    }
}

TEST_CASE("the verification of a share stops when progress returns false") {
    const test::ScratchDirectory scratch;
    const std::string step =
        test::save_grid(scratch.path(), test::small_model(), {.tp = 2, .pp = 2}, 7, 1);
    const std::string manifest = test::read(step + "/manifest.json");
    int n_calls = 0;
    const Verification stopped = verify_share(step, {0, 1}, manifest, [&](i64) {
        ++n_calls;
        return false;
    });
    CHECK(n_calls >= 1);
    CHECK(n_calls <= io::blocks_in_flight);  // the blocks that other threads were reading
    CHECK(stopped.problems.empty());
    CHECK(stopped.n_bytes < verify(step, nullptr).n_bytes);
}
