// SPDX-License-Identifier: Apache-2.0
// A part that grows, is truncated anywhere and is resumed: its bytes, and how much of it a resume
// reads.
#include "data/indexed/dataset_part.hpp"

#include <fcntl.h>

#include <vector>

#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::data;

namespace {

constexpr i32 document_tokens = 3'000'000;  // 6 MB: more than AppendFile reads at once

void add_document(DatasetPart& part, i64 i) {
    const std::vector<u16> tokens(document_tokens, static_cast<u16>(i));
    const std::vector<i32> lengths = {document_tokens - 1, 1};
    const std::vector<i32> sequences = {2};
    part.add(std::as_bytes(std::span(tokens)), lengths, sequences, i);
}

// Writes a part of documents [0, n). Returns its states before the first document and after each.
std::vector<PartState> make_part(const std::string& stem, i64 n) {
    auto part = DatasetPart::open(stem, TokenType::u16);
    std::vector<PartState> states = {part.state()};
    for (i64 i = 0; i < n; ++i) {
        add_document(part, i);
        states.push_back(part.state());
    }
    return states;
}

void shorten(const std::string& path, i64 size) {
    const io::Fd fd(io::checked::create(path, O_RDWR));
    io::checked::truncate(fd.get(), path, size);
}

}  // namespace

TEST_CASE("a resumed part is read once and ends with the bytes of an uninterrupted one") {
    const test::TempDir scratch;
    const std::vector<PartState> want = make_part(scratch / "whole", 4);
    const std::vector<PartState> states = make_part(scratch / "part", 3);
    auto part = DatasetPart::open(scratch / "part", TokenType::u16);
    int n_blocks = 0;
    const auto count = [&] { ++n_blocks; };
    REQUIRE(part.count_intact(states, count) == 4);
    const int n_once = n_blocks;
    CHECK(n_once >= 5);
    part.resume(states.back(), count);
    CHECK(n_blocks == n_once);
    add_document(part, 3);
    CHECK(part.state().to_json() == want[4].to_json());
}

TEST_CASE(
    "files of different lengths are truncated to the last state that all of them agree with") {
    const test::TempDir scratch;
    const std::vector<PartState> states = make_part(scratch / "part", 3);
    const std::string shorter =
        GENERATE(DatasetPart::bin_of("part"), DatasetPart::lengths_of("part"),
                 DatasetPart::documents_of("part"));
    const std::string path = scratch / shorter;
    shorten(path, io::file_size(path) - 1);
    auto part = DatasetPart::open(scratch / "part", TokenType::u16);
    REQUIRE(part.count_intact(states, [] {}) == 3);
    const i64 back_to = GENERATE(0, 1, 2);
    part.resume(states[static_cast<size_t>(back_to)], [] {});
    for (i64 i = back_to; i < 3; ++i) add_document(part, i);
    CHECK(part.state().to_json() == states[3].to_json());
    auto again = DatasetPart::open(scratch / "part", TokenType::u16);
    CHECK(again.count_intact(states, [] {}) == 4);
}

TEST_CASE("count_intact can be stopped and changes nothing") {
    struct Stop {};
    const test::TempDir scratch;
    const std::vector<PartState> states = make_part(scratch / "part", 2);
    {
        auto part = DatasetPart::open(scratch / "part", TokenType::u16);
        CHECK_THROWS_AS(part.count_intact(states, [] { throw Stop(); }), Stop);
    }
    auto part = DatasetPart::open(scratch / "part", TokenType::u16);
    CHECK(part.count_intact(states, [] {}) == 3);
}
