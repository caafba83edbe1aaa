// SPDX-License-Identifier: Apache-2.0
#include "preprocess/input_plan.hpp"

#include <unistd.h>

#include "io/atomic.hpp"
#include "io/stream.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::preprocess;

namespace {

InputPlan plan_of_sizes(std::initializer_list<i64> sizes, bool divisible) {
    InputPlan plan;
    for (const i64 size : sizes) {
        data::InputFile file;
        file.path = "f" + std::to_string(plan.files.size());
        file.size = size;
        file.divisible = divisible;
        plan.files.push_back(file);
        plan.input_bytes += size;
    }
    return plan;
}

// Returns the pieces of all parts of all shards, in order.
std::vector<data::InputPiece> all_pieces(InputPlan plan, i64 n_shards) {
    std::vector<data::InputPiece> pieces;
    plan.shard.count = n_shards;
    for (plan.shard.index = 0; plan.shard.index < n_shards; ++plan.shard.index) {
        for (i64 part = 0; part < plan.n_parts; ++part) {
            for (const data::InputPiece& piece : plan.part(part)) pieces.push_back(piece);
        }
    }
    return pieces;
}

std::string shard_error(const std::string& text) {
    return test::caught([&] { parse_shard(text); }).message;
}

}  // namespace

TEST_CASE("--shard i/n is parsed, anything else is refused by name") {
    CHECK(parse_shard("3/8").index == 3);
    CHECK(parse_shard("3/8").count == 8);
    for (const char* text : {"", "3", "/8", "3/", "a/8", "-1/8", "3/8/9", "3 /8"})
        CHECK_THAT(shard_error(text),
                   HasInOrder("--shard: ", "i/n", "'" + std::string(text) + "'"));
    CHECK_THAT(shard_error("0/0"), StartsWith("--shard: '0/0'"));
    CHECK_THAT(shard_error("8/8"), HasInOrder("--shard: '8/8'", "0 to 7"));
}

TEST_CASE("the parts of all shards cover every byte once, in order") {
    InputPlan plan = plan_of_sizes({1000, 1, 77, 500}, true);
    plan.n_parts = GENERATE(1, 4);
    i64 file = 0, end = 0;
    for (const data::InputPiece& piece : all_pieces(plan, 5)) {
        if (piece.file != file) {
            REQUIRE(end == plan.files[static_cast<size_t>(file)].size);
            file = piece.file;
            end = 0;
        }
        REQUIRE(piece.begin == end);
        end = piece.end < 0 ? plan.files[static_cast<size_t>(file)].size : piece.end;
    }
    CHECK(file == 3);
    CHECK(end == 500);
}

TEST_CASE("a compressed file belongs whole to one part") {
    InputPlan plan = plan_of_sizes({100, 100, 100}, false);
    plan.n_parts = 2;
    const auto pieces = all_pieces(plan, 2);
    REQUIRE(pieces.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
        CHECK(pieces[i].file == static_cast<int>(i));
        CHECK(pieces[i].end == -1);
    }
}

TEST_CASE("compressed files are parts of their own, up to four for each worker") {
    const test::TempDir dir(test::memory_root());
    BuildOptions options;
    const std::string text = "{\"text\": \"a\"}\n";
    for (int i = 0; i < 20; ++i) {
        const std::string path = dir / ("f" + std::to_string(i) + ".jsonl.gz");
        io::write_file(path, "\x1f\x8b\x08" + std::string(20, '\0'), io::Overwrite::no);
        options.inputs.push_back(path);
    }
    CHECK(make_input_plan(options, 1).n_parts == 1);
    CHECK(make_input_plan(options, 2).n_parts == 8);
    CHECK(make_input_plan(options, 16).n_parts == 20);
    options.shard = "1/2";
    CHECK(make_input_plan(options, 16).n_parts == 10);
}

TEST_CASE("fewer parts are encoded at a time when their decoders need much memory") {
    InputPlan plan = plan_of_sizes({1000, 1000, 1000, 1000}, false);
    plan.n_parts = 4;
    CHECK(concurrent_parts(plan, 2) == 2);
    CHECK(concurrent_parts(plan, 16) == 4);
    plan.files[1].window = io::default_decoding_memory;
    CHECK(concurrent_parts(plan, 16) == 1);
}

TEST_CASE("plain files are one part, and their bytes are divided among shards") {
    const test::TempDir dir(test::memory_root());
    io::write_file(dir / "a.jsonl", std::string(1200, '\n'), io::Overwrite::no);
    BuildOptions options;
    options.inputs = {dir / "a.jsonl"};
    options.shard = "2/3";
    const InputPlan plan = make_input_plan(options, 16);
    CHECK(plan.n_parts == 1);
    CHECK(plan.input_bytes == 1200);
    CHECK(plan.shard_bytes() == 400);
}

TEST_CASE("an input that is read once can neither be divided nor resumed") {
    BuildOptions options;
    options.inputs = {"/dev/null"};
    const InputPlan plan = make_input_plan(options, 16);
    CHECK(plan.input_bytes == -1);
    CHECK(plan.shard_bytes() == -1);
    CHECK(plan.part(0).size() == 1);
    const auto refused = [&] { return test::caught([&] { make_input_plan(options, 1); }); };
    options.resume = true;
    CHECK(refused().says("--resume: /dev/null ", "regular file"));
    options.shard = "0/2";
    CHECK(refused().says("--shard: ", "/dev/null", "regular file"));
    CHECK(refused().code == Exit::usage);
}
