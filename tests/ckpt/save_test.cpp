// SPDX-License-Identifier: Apache-2.0
// Saves and loads: any layout into any other, digests, and the choice of the step to load.
#include "ckpt/history/save.hpp"

#include "base/log.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/flat_pieces.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/format/model_json.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/verify.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;
using test::Buffers;

namespace {

// Saves the shards of all ranks of a (dp, pp, tp) grid as one checkpoint, one writer per rank. The
// flat buffer of each model-parallel rank is sharded over the data-parallel ranks, as in ZeRO.
void save_grid(const Generation& generation, const spec::ModelConfig& config,
               const spec::ParallelConfig& parallel, i64 iteration, i64 salt) {
    SaveInfo info = test::info_of(config, iteration);
    info.parallel = parallel;
    const std::string temporary = begin_save(generation, iteration);
    std::vector<IndexReference> parts;
    const auto table = spec::tensor_table(config);
    for (i64 pp = 0; pp < parallel.pp; ++pp) {
        for (i64 tp = 0; tp < parallel.tp; ++tp) {
            Buffers buffers(config, parallel, tp, pp);
            buffers.fill(config, salt);
            for (i64 dp = 0; dp < parallel.dp; ++dp) {
                const i64 n = buffers.layout.n_elements;
                auto pieces = buffers.pieces(n * dp / parallel.dp, n * (dp + 1) / parallel.dp);
                std::erase_if(pieces, [&](const Piece& piece) {
                    const auto& tensor = table[static_cast<size_t>(piece.tensor)];
                    const bool replica = tensor.cut.dim < 0 && tp > 0;
                    return replica || (tensor.tied_head && pp > 0);
                });
                parts.push_back(
                    write_part(temporary, info, static_cast<i64>(parts.size()), pieces));
            }
        }
    }
    commit_save(generation, info, parts);
}

}  // namespace

TEST_CASE("a saved model is loaded bitwise, with its counters and configuration") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    Buffers buffers(config, {});
    buffers.fill(config, 1);
    const Generation generation = claim(scratch.path());
    CHECK(generation.number == 1);
    const SaveResult result = save(generation, test::info_of(config, 7), buffers.pieces());
    CHECK(result.path == scratch / "global_step7");
    CHECK(latest_step(scratch.path()) == 7);

    const Checkpoint checkpoint = open(scratch.path());
    const Manifest& manifest = checkpoint.manifest();
    CHECK(manifest.counters.iteration == 7);
    CHECK(manifest.counters.consumed_tokens == 7 * 8 * 16);
    CHECK(to_json(manifest.model) == to_json(config));
    CHECK(manifest.state == test::info_of(config, 7).state);
    CHECK(manifest.command_line == "lm-train --seed 1234");
    CHECK(manifest.tensors.size() == spec::tensor_table(config).size());
    CHECK(optimizer_of(checkpoint) == spec::OptimizerKind::adam);
    CHECK_FALSE(checkpoint.has(SliceKind::master));
    test::check_grid(checkpoint, config, {}, 1);
    i64 bytes = 0;
    for (const auto& name : io::list_directory(result.path)) {
        bytes += io::file_size(result.path + "/" + name);
    }
    CHECK(result.bytes == bytes);
    // The word table is stored without its padding.
    CHECK(checkpoint.load_fp32("embedding.word.weight", SliceKind::master).size() == 101 * 24);
}

TEST_CASE("any layout loads a checkpoint of any layout") {
    const auto config = test::small_model();
    const std::vector<spec::ParallelConfig> layouts{{.tp = 1, .pp = 1, .dp = 1},
                                                    {.tp = 2, .pp = 1, .dp = 3},
                                                    {.tp = 4, .pp = 2, .dp = 2},
                                                    {.tp = 1, .pp = 2, .dp = 5}};
    for (const auto& from : layouts) {
        const test::ScratchDirectory scratch;
        save_grid(claim(scratch.path()), config, from, 3, 5);
        const Checkpoint checkpoint = open(scratch.path());
        for (const auto& to : layouts) test::check_grid(checkpoint, config, to, 5);
    }
}

// A rank of a large job must not open the files of all other ranks.
TEST_CASE("a share of a step opens only the files that a load needs") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const spec::ParallelConfig parallel{.tp = 2, .pp = 2, .dp = 16};
    save_grid(claim(scratch.path()), config, parallel, 3, 1);
    const std::string path = scratch / "global_step3";
    const auto all = Checkpoint::open(path);
    CHECK(all.n_parts_read() == 64);
    i64 n_parts = 0;
    i64 n_files = 0;
    for (i64 rank = 0; rank < 64; ++rank) {
        const auto share = Checkpoint::open(path, {rank, 64});
        n_parts += share.n_parts_read();
        n_files += share.n_files_opened();
    }
    CHECK(n_parts == 64);  // each part was read by one of the shares
    CHECK(n_files == all.n_files_opened());

    const auto one = Checkpoint::open(path, {63, 64});
    const i64 n_before = one.n_files_opened();
    std::vector<float> row(24);
    const auto load_row = [&](const std::string& tensor) {
        one.load(
            tensor, spec::exp_avg,
            {.box = {Shape{0}, Shape{24}}, .flat_begin = 0, .flat_end = 24, .data = row.data()});
    };
    load_row("layers.0.attention.norm.weight");  // small: one or two of the 16 shards have it
    CHECK(one.n_parts_read() <= 1 + 4);
    CHECK(one.n_files_opened() <= n_before + 2);
    test::check_grid(one, config, parallel, 1);
}

TEST_CASE("index parts of several writers load") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    Buffers buffers(config, {});
    buffers.fill(config, 1);
    const auto save_as = [&](i64 iteration, bool joined) {
        const Generation generation = claim(scratch.path());
        const SaveInfo info = test::info_of(config, iteration);
        const std::string temporary = begin_save(generation, iteration);
        const i64 half = buffers.layout.n_elements / 2;
        IndexPart first = write_pieces(temporary, info, 0, buffers.pieces(0, half));
        IndexPart second =
            write_pieces(temporary, info, 1, buffers.pieces(half, buffers.layout.n_elements));
        std::vector<IndexReference> parts;
        if (joined) {
            append(first, std::move(second));
        } else {
            parts.push_back(write_index(temporary, second));
        }
        parts.push_back(write_index(temporary, first));
        commit_save(generation, info, parts);
    };
    save_as(1, false);
    save_as(2, true);
    for (const i64 step : {1, 2}) {
        const std::string path = scratch / step_name(step);
        test::check_grid(Checkpoint::open(path), config, {}, 1);
        test::check_grid(Checkpoint::open(path, {1, 2}), config, {}, 1);
        test::check_grid(Checkpoint::open(path, {7, 8}), config, {}, 1);
    }
}

TEST_CASE("files outside the share are verified when a load uses them") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    save_grid(claim(scratch.path()), config, {.dp = 4}, 3, 1);
    const std::string path = scratch / "global_step3";
    const std::string file = path + "/optim-00002.safetensors";
    test::write(file, test::read(file).substr(1));
    CHECK_THAT(test::error_of([&] {
                   Checkpoint::open(path, {2, 4});
               }),
               ContainsSubstring("corrupt"));
    const auto other = Checkpoint::open(path, {1, 4});
    CHECK_THAT(test::error_of([&] { test::check_grid(other, config, {.dp = 4}, 1); }),
               ContainsSubstring("optim-00002.safetensors"));
}

TEST_CASE("16-bit weights with fp32 masters") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    Buffers buffers(config, {});
    buffers.fill(config, 2);
    std::vector<u16> half(buffers.weight.size());
    for (size_t i = 0; i < half.size(); ++i) half[i] = bf16_from_fp32(buffers.weight[i]);
    auto pieces = pieces_of(buffers.layout, SliceKind::weight, DType::bf16, half.data());
    for (const auto& piece :
         pieces_of(buffers.layout, SliceKind::master, DType::fp32, buffers.weight.data())) {
        pieces.push_back(piece);
    }
    SaveInfo info = test::info_of(config, 1);
    info.weights = DType::bf16;
    save(claim(scratch.path()), info, pieces);
    const Checkpoint checkpoint = open(scratch.path());
    const auto table = spec::tensor_table(config);
    Buffers got(config, {});
    checkpoint.load(table, got.layout, SliceKind::master, DType::fp32, got.weight.data());
    CHECK(got.weight == buffers.weight);
    std::vector<u16> got_half(half.size());
    checkpoint.load(table, got.layout, SliceKind::weight, DType::bf16, got_half.data());
    // The gaps and padded rows of `half` are zeros too.
    CHECK(got_half == half);
    const auto widened = checkpoint.load_fp32("final_norm.weight", SliceKind::weight);
    CHECK(widened[3] == fp32_from_bf16(bf16_from_fp32(
                            checkpoint.load_fp32("final_norm.weight", SliceKind::master)[3])));
    CHECK_THAT(test::error_of([&] { checkpoint.load_fp32("final_norm.weight", spec::exp_avg); }),
               HasInOrder("exp_avg", "final_norm.weight"));
}

TEST_CASE("a staged load stores the elements of a load, in any range") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    const auto table = spec::tensor_table(config);
    const spec::ParallelConfig parallel{.tp = 2, .pp = 2, .dp = 2};
    save_grid(claim(scratch.path()), config, parallel, 3, 1);
    const Checkpoint checkpoint = open(scratch.path());
    // Tensor rank 0: with this vocabulary the embedding of rank 1 is padding only.
    const Buffers buffers(config, parallel, 0, 1);
    const i64 n = buffers.layout.n_elements;
    for (const auto& range : {std::pair{i64{0}, n}, {i64{5}, n / 3}, {n / 3, n - 7}}) {
        const i64 begin = range.first;
        const i64 end = range.second;
        INFO(begin << " to " << end);
        std::vector<float> direct(static_cast<size_t>(end - begin));
        checkpoint.load(table, buffers.layout, SliceKind::weight, DType::fp32, direct.data(), begin,
                        end);
        std::vector<float> staged(direct.size());
        checkpoint.load_staged(table, buffers.layout, SliceKind::weight, DType::fp32, begin, end,
                               [&](i64 from, i64 to, const void* elements) {
                                   REQUIRE((begin <= from && from < to && to <= end));
                                   std::copy_n(static_cast<const float*>(elements), to - from,
                                               staged.begin() + (from - begin));
                               });
        CHECK(staged == direct);
        CHECK(std::ranges::count(staged, 0.0F) < end - begin);
    }
}

TEST_CASE("a checkpoint of another model is refused with the name of the tensor") {
    const test::ScratchDirectory scratch;
    auto config = test::small_model();
    Buffers buffers(config, {});
    save(claim(scratch.path()), test::info_of(config, 1), buffers.pieces());
    config.ffn_hidden = 60;
    Buffers other(config, {});
    const std::string text = test::error_of(
        [&] {
            open(scratch.path())
                .load(spec::tensor_table(config), other.layout, SliceKind::weight, DType::fp32,
                      other.weight.data());
        },
        Exit::usage);
    CHECK_THAT(text, ContainsSubstring("layers.0.mlp.up.weight") && ContainsSubstring("[96, 24]") &&
                         ContainsSubstring("[60, 24]"));
}

TEST_CASE("every flipped bit is detected") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    Buffers buffers(config, {});
    buffers.fill(config, 1);
    const std::string step =
        save(claim(scratch.path()), test::info_of(config, 7), buffers.pieces()).path;
    const auto load_all = [&] {
        const Verification result = verify(step, {});
        if (!result.problems.empty()) run_error(step, "{}", result.problems.front().line());
    };
    load_all();
    u64 at = 12345;
    for (const std::string& name : io::list_directory(step)) {
        const std::string good = test::read(step + "/" + name);
        const size_t n_flips = name.ends_with(".json") ? 400 : 150;
        for (size_t flip = 0; flip < n_flips; ++flip) {
            at = mix(at, flip);
            std::string bad = good;
            // The first and last bytes, then random ones.
            const size_t byte = flip < 48   ? flip
                                : flip < 96 ? good.size() - 1 - (flip - 48)
                                            : at % good.size();
            bad[byte] = static_cast<char>(bad[byte] ^ (1 << (at >> 60 & 7)));
            test::write(step + "/" + name, bad);
            INFO(name << " byte " << byte);
            CHECK(test::error_of(load_all) != "no error");
        }
        test::write(step + "/" + name, good);
    }
    load_all();
}

TEST_CASE("open() opens only complete steps and warns about a fallback") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    Buffers buffers(config, {});
    CHECK_FALSE(open_if_any(scratch / "none"));
    CHECK_FALSE(open_if_any(scratch.path()));
    CHECK_THAT(test::error_of([&] { open(scratch / "none"); }, Exit::usage),
               ContainsSubstring(scratch / "none"));
    CHECK_THAT(test::error_of([&] { open(scratch.path()); }, Exit::usage),
               ContainsSubstring(scratch.path() + ": "));
    const Generation generation = claim(scratch.path());
    for (const i64 step : {5, 9, 20, 30}) {
        save(generation, test::info_of(config, step), buffers.pieces());
    }
    std::vector<std::string> warnings;
    set_log_sink([&](Severity, std::string_view text) { warnings.emplace_back(text); });
    CHECK(open(scratch.path()).manifest().counters.iteration == 30);
    CHECK(open(scratch / "global_step9/").manifest().counters.iteration == 9);
    CHECK(warnings.empty());

    // Steps later than `latest` are not on its branch.
    set_latest(scratch.path(), tip_of(read_manifest(scratch / "global_step20")));
    io::remove_tree(scratch / "global_step20/manifest.json");
    CHECK(open(scratch.path()).manifest().counters.iteration == 9);
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], HasInOrder("global_step20", "manifest.json", "global_step9 "));
    test::write(scratch / "latest", "global_step99999999999999999999");
    CHECK(open(scratch.path()).manifest().counters.iteration == 30);
    io::remove_tree(scratch / "latest");
    CHECK(open(scratch.path()).manifest().counters.iteration == 30);
    for (const i64 step : {5, 9, 30}) {
        test::write(scratch / step_name(step) + "/manifest.json", "{}");
    }
    CHECK_THAT(test::error_of([&] { open(scratch.path()); }),
               HasInOrder(scratch.path() + ": ", "complete"));
    set_log_sink(nullptr);
}

TEST_CASE("a newer run supersedes an older one") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    Buffers buffers(config, {});
    const Generation old = claim(scratch.path());
    save(old, test::info_of(config, 1), buffers.pieces());
    const std::string temporary = begin_save(old, 2);
    const IndexReference part =
        write_part(temporary, test::info_of(config, 2), 0, buffers.pieces());
    const Generation fresh = claim(scratch.path());
    CHECK(fresh.number == 2);
    CHECK_FALSE(io::exists(temporary));
    const std::string text = test::error_of(
        [&] { save(old, test::info_of(config, 2), buffers.pieces()); }, Exit::superseded);
    CHECK_THAT(text, ContainsSubstring("generation 2") && ContainsSubstring("process"));
    CHECK(open(scratch.path()).manifest().counters.iteration == 1);
    save(fresh, test::info_of(config, 2), buffers.pieces());
    CHECK(open(scratch.path()).manifest().generation == 2);
    // A second save of the same step replaces the first one and leaves nothing else.
    buffers.fill(config, 3);
    save(fresh, test::info_of(config, 2), buffers.pieces());
    CHECK(io::list_directory(scratch.path()) ==
          std::vector<std::string>{"fence.json", "generation-2", "global_step1", "global_step2",
                                   "latest"});
    test::check_grid(open(scratch.path()), config, {}, 3);
}
