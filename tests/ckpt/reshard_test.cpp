// SPDX-License-Identifier: Apache-2.0
// Rewrites checkpoints for another layout and back.
#include "ckpt/verbs/reshard.hpp"

#include "base/error.hpp"
#include "ckpt/format/flat_pieces.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/verbs/diff.hpp"
#include "ckpt/verbs/verify.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;

namespace {

Checkpoint resharded(const Checkpoint& from, i64 tp, i64 pp, const std::string& directory) {
    io::make_directories(directory);
    return Checkpoint::open(reshard(from, tp, pp, directory, nullptr).path);
}

i64 n_different(const Checkpoint& a, const Checkpoint& b) {
    i64 n = 0;
    diff(a, b, all_kinds, [&](const TensorDifference& tensor) { n += !tensor.equal(); });
    return n;
}

}  // namespace

TEST_CASE("reshard: all numbers and the state of the run are the same for any layouts") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const spec::ParallelConfig source =
        GENERATE(spec::ParallelConfig{.tp = 1, .pp = 1}, spec::ParallelConfig{.tp = 3, .pp = 2});
    const auto from = Checkpoint::open(test::save_grid(scratch / "from", config, source, 7, 1));
    i64 next = 0;
    for (const spec::ParallelConfig& wanted :
         {spec::ParallelConfig{.tp = 1, .pp = 1}, spec::ParallelConfig{.tp = 2, .pp = 2},
          spec::ParallelConfig{.tp = 4, .pp = 1}, spec::ParallelConfig{.tp = 3, .pp = 2}}) {
        const Checkpoint to =
            resharded(from, wanted.tp, wanted.pp, scratch / fmt::format("to{}", next++));
        CHECK(verify(to.path(), nullptr).problems.empty());
        CHECK(n_different(from, to) == 0);
        test::check_grid(to, config, wanted, 1);
        test::check_grid(to, config, {.tp = 2, .pp = 1, .dp = 3}, 1);
        const Manifest& manifest = to.manifest();
        CHECK(manifest.parallel.tp == wanted.tp);
        CHECK(manifest.parallel.pp == wanted.pp);
        CHECK(manifest.parallel.dp == 1);
        CHECK(manifest.index.size() == static_cast<size_t>(wanted.tp * wanted.pp));
        CHECK(manifest.counters.optimizer_step == from.manifest().counters.optimizer_step);
        CHECK(manifest.state == from.manifest().state);
        CHECK(manifest.command_line == from.manifest().command_line);
        if (wanted.tp != source.tp || wanted.pp != source.pp) continue;
        // Resharding to the same layout gives the same files, byte for byte; so does resharding to
        // another layout and back.
        for (const std::string& name : io::list_directory(from.path())) {
            if (name == "manifest.json") continue;
            CHECK(test::read(to.path() + "/" + name) == test::read(from.path() + "/" + name));
        }
    }
}

TEST_CASE("reshard: weights only; invalid layouts are refused") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    test::Buffers buffers(config, {});
    buffers.fill(config, 1);
    const Generation generation = claim(scratch / "a");
    const auto weights = Checkpoint::open(
        save(generation, test::info_of(config, 1),
             pieces_of(buffers.layout, SliceKind::weight, DType::fp32, buffers.weight.data()))
            .path);
    const Checkpoint cut = resharded(weights, 2, 2, scratch / "b");
    CHECK_FALSE(cut.has(spec::exp_avg));
    CHECK(n_different(weights, cut) == 0);

    const auto attempt = [&](i64 tp, i64 pp, Exit code) {
        return test::error_of([&] { resharded(weights, tp, pp, scratch / "c"); }, code);
    };
    CHECK_THAT(attempt(1, 3, Exit::usage),
               ContainsSubstring("--pipeline-model-parallel-size: 3 stages x 1 chunks "));
    const std::string file = weights.path() + "/weights-00000.safetensors";
    std::string bytes = test::read(file);
    bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 4);
    test::write(file, bytes);
    const auto damaged = Checkpoint::open(weights.path());
    CHECK_THAT(test::error_of([&] { reshard(damaged, 2, 1, scratch / "c", nullptr); }),
               HasInOrder("weights-00000.safetensors: ", "checksum"));
    CHECK(io::list_directory(scratch / "c").empty());
}
