// SPDX-License-Identifier: Apache-2.0
// The indexed dataset: bytes as Megatron writes them, reading, and every fault that verify names.
#include <fmt/ranges.h>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "data/indexed/indexed_writer.hpp"
#include "data/indexed/verify_dataset.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::data;

namespace {

DatasetMetadata facts() {
    DatasetMetadata side;
    side.tool = "test";
    side.eod_id = 9;
    side.largest_id = 9;
    side.tokenizer = {"T", "xxh3:0", 10, 128};
    return side;
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
    return std::as_bytes(std::span(values));
}

// Three documents: 3, 1 and 2 tokens.
std::string write_small(const test::TempDir& scratch, const std::string& name) {
    auto writer = IndexedWriter::create(scratch / name, TokenType::u16, io::Overwrite::yes);
    const std::vector<u16> tokens = {1, 2, 3, 4, 5, 9};
    const std::vector<i32> lengths = {3, 1, 2};
    writer.add(bytes_of(tokens), lengths);
    writer.commit(facts());
    return scratch / name;
}

template <typename T>
void put(std::string& bytes, size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace

TEST_CASE("the .idx has the bytes that Megatron writes") {
    const test::TempDir scratch;
    const std::string prefix = write_small(scratch, "a");
    std::string want(34 + 3 * 12 + 4 * 8, '\0');
    std::memcpy(want.data(), "MMIDIDX\0\0", 9);
    put<u64>(want, 9, 1);
    put<u8>(want, 17, 8);
    put<u64>(want, 18, 3);
    put<u64>(want, 26, 4);
    const i32 lengths[] = {3, 1, 2};
    const i64 pointers[] = {0, 6, 8};
    const i64 documents[] = {0, 1, 2, 3};
    std::memcpy(want.data() + 34, lengths, sizeof lengths);
    std::memcpy(want.data() + 46, pointers, sizeof pointers);
    std::memcpy(want.data() + 70, documents, sizeof documents);
    CHECK(io::read_file(idx_path(prefix)) == want);
    CHECK(io::file_size(bin_path(prefix)) == 12);
    CHECK(verify_dataset(prefix, {}).faults.empty());
}

TEST_CASE("a dataset returns lengths, positions, documents and tokens") {
    const test::TempDir scratch;
    const auto d = IndexedDataset::open(write_small(scratch, "a"));
    CHECK(d.n_sequences() == 3);
    CHECK(d.n_documents() == 3);
    CHECK(d.n_tokens() == 6);
    CHECK(d.length(1) == 1);
    CHECK(d.position(2) == 4);
    CHECK(d.position(3) == 6);
    const i64 sequences[] = {0, 0, 0, 1, 2, 2};
    for (i64 i = 0; i < 6; ++i) CHECK(d.sequence_at(i) == sequences[i]);
    std::vector<i32> ids(4);
    d.read(2, ids);
    CHECK(ids == std::vector<i32>{3, 4, 5, 9});
}

TEST_CASE("documents may have no tokens or several sequences") {
    const test::TempDir scratch;
    const std::string prefix = scratch / "k";
    {
        auto writer = IndexedWriter::create(prefix, TokenType::i32, io::Overwrite::no);
        const std::vector<i32> tokens = {70000, 2, 3, 4};
        const std::vector<i32> lengths = {1, 1, 2};
        writer.add(bytes_of(std::vector<i32>{7}), std::vector<i32>{1});
        writer.add(bytes_of(tokens), lengths, std::vector<i32>{0, 2, 0, 0, 1, 0});
        writer.add(bytes_of(std::vector<i32>{8}), std::vector<i32>{1});
        writer.commit_without_metadata();
    }
    const auto d = IndexedDataset::open(prefix);
    CHECK(d.n_documents() == 8);
    const i64 documents[] = {0, 1, 1, 3, 3, 3, 4, 4, 5};
    for (i64 i = 0; i <= 8; ++i) CHECK(d.document(i) == documents[i]);
    std::vector<i64> ids(6);
    d.read(0, ids);
    CHECK(ids == std::vector<i64>{7, 70000, 2, 3, 4, 8});
    CHECK(verify_dataset(prefix, {}).faults.empty());
    CHECK_FALSE(io::exists(metadata_path(prefix)));
    CHECK(io::list_directory(scratch.path()).size() == 2);
}

TEST_CASE("empty sequences of other writers are skipped") {
    const test::TempDir scratch;
    const std::string prefix = scratch / "z";
    auto writer = IndexedWriter::create(prefix, TokenType::u16, io::Overwrite::no);
    writer.add(bytes_of(std::vector<u16>{1, 2}), std::vector<i32>{0, 1, 0, 0, 1, 0});
    writer.commit_without_metadata();
    const auto d = IndexedDataset::open(prefix);
    CHECK(d.sequence_at(0) == 1);
    CHECK(d.sequence_at(1) == 4);
    CHECK(d.n_tokens() == 2);
}

TEST_CASE("a writer without commit leaves nothing and keeps an existing output") {
    const test::TempDir scratch;
    {
        auto writer = IndexedWriter::create(scratch / "u", TokenType::u16, io::Overwrite::no);
        writer.add(bytes_of(std::vector<u16>{1}), std::vector<i32>{1});
    }
    CHECK(io::list_directory(scratch.path()).empty());
    write_small(scratch, "a");
    CHECK_THROWS_WITH(IndexedWriter::create(scratch / "a", TokenType::u16, io::Overwrite::no),
                      ContainsSubstring(scratch / "a"));
}

TEST_CASE("a corrupt index is refused or found by verify") {
    const test::TempDir scratch;
    const std::string prefix = write_small(scratch, "a");
    const std::string idx = io::read_file(idx_path(prefix));
    const std::string bin = io::read_file(bin_path(prefix));
    const auto open_with = [&](std::string bad_idx, const std::string& bad_bin) -> std::string {
        io::write_file(idx_path(prefix), bad_idx, io::Overwrite::yes);
        io::write_file(bin_path(prefix), bad_bin, io::Overwrite::yes);
        try {
            IndexedDataset::open(prefix);
        } catch (const Error& e) {
            CHECK(e.code() == Exit::failure);
            return e.what();
        }
        return "opens";
    };
    const auto changed = [&](size_t at, auto value) {
        std::string bytes = idx;
        put(bytes, at, value);
        return bytes;
    };
    CHECK_THAT(open_with("", bin), HasInOrder("a.idx: ", "empty"));
    CHECK_THAT(open_with(std::string(50, 'x'), bin), ContainsSubstring("wrong magic"));
    CHECK_THAT(open_with(std::string("TNTIDX\0\0", 8) + idx, bin), ContainsSubstring("TNTIDX"));
    CHECK_THAT(open_with(idx.substr(0, 30), bin), ContainsSubstring("truncated"));
    CHECK_THAT(open_with(idx.substr(0, idx.size() - 1), bin), ContainsSubstring("truncated"));
    CHECK_THAT(open_with(idx + "xx", bin), ContainsSubstring("trailing"));
    CHECK_THAT(open_with(changed(9, u64{2}), bin), HasInOrder("version 1", "2"));
    CHECK_THAT(open_with(changed(17, u8{6}), bin), ContainsSubstring("floating"));
    CHECK_THAT(open_with(changed(17, u8{99}), bin), ContainsSubstring("dtype code 99"));
    CHECK_THAT(open_with(changed(18, ~u64{0}), bin), ContainsSubstring("corrupt header"));
    CHECK_THAT(open_with(changed(26, u64{0}), bin), ContainsSubstring("0 document entries"));
    CHECK_THAT(open_with(changed(26, u64{9}), bin), ContainsSubstring("requires"));
    CHECK_THAT(open_with(changed(46, i64{2}), bin), ContainsSubstring("first pointer"));
    CHECK_THAT(open_with(changed(62, i64{-8}), bin), ContainsSubstring("last sequence"));
    CHECK_THAT(open_with(changed(42, i32{-1}), bin), ContainsSubstring("last sequence"));
    CHECK_THAT(open_with(changed(94, i64{2}), bin), ContainsSubstring("document index"));
    CHECK_THAT(open_with(idx, bin.substr(2)), ContainsSubstring("truncated"));
    CHECK_THAT(open_with(idx, bin + "xx"), ContainsSubstring("another index"));
    const auto first_fault = [&] {
        const auto faults = verify_dataset(prefix, {}).faults;
        return faults.empty() ? std::string("none") : faults[0];
    };
    CHECK(open_with(changed(38, i32{2}), bin) == "opens");
    CHECK_THAT(first_fault(), HasInOrder("sequence 2 ", "token 4"));
    CHECK(open_with(changed(38, i32{-2}), bin) == "opens");
    CHECK_THAT(first_fault(), ContainsSubstring("negative"));
    CHECK(open_with(changed(54, i64{7}), bin) == "opens");
    CHECK_THAT(first_fault(), ContainsSubstring("corrupt"));
    CHECK(open_with(changed(78, i64{3}), bin) == "opens");
    CHECK_THAT(first_fault(), ContainsSubstring("document index"));
    CHECK(open_with(idx, std::string(12, '\x7F')) == "opens");
    CHECK_THAT(first_fault(), HasInOrder("vocabulary", "10"));
    CHECK(open_with(idx, bin) == "opens");
    CHECK(first_fault() == "none");
    VerifyRules rules;
    rules.eod_id = 9;
    CHECK(verify_dataset(prefix, rules).faults.size() == 2);
}

TEST_CASE("verify reports a metadata file with other file sizes") {
    const test::TempDir scratch;
    const std::string prefix = write_small(scratch, "a");
    const auto faults_with = [&](i64 bin_bytes, i64 idx_bytes) {
        DatasetMetadata side = *read_metadata(prefix);
        side.bin.bytes = bin_bytes;
        side.idx.bytes = idx_bytes;
        io::write_file(metadata_path(prefix), side.to_json(), io::Overwrite::yes);
        return verify_dataset(prefix, {}).faults;
    };
    CHECK(faults_with(12, 102).empty());
    const auto only_fault = [&](i64 bin_bytes, i64 idx_bytes) {
        const auto faults = faults_with(bin_bytes, idx_bytes);
        return faults.size() == 1 ? faults[0] : std::string("not one");
    };
    CHECK_THAT(only_fault(14, 102),
               HasInOrder(metadata_path(prefix) + ": ", "14 bytes", "tokens", "12"));
    CHECK_THAT(only_fault(12, 101),
               HasInOrder(metadata_path(prefix) + ": ", "101 bytes", "index", "102"));
}

TEST_CASE("verify reports each fault of the index once, and no valid entry") {
    const test::TempDir scratch;
    const std::string prefix = scratch / "a";
    {
        auto writer = IndexedWriter::create(prefix, TokenType::u16, io::Overwrite::no);
        const std::vector<u16> tokens = {1, 2, 9, 9, 4, 9, 5, 9, 6, 7, 8, 9};
        writer.add(bytes_of(tokens), std::vector<i32>{3, 1, 2, 2, 4});
        writer.commit_without_metadata();
    }
    const std::string idx = io::read_file(idx_path(prefix));
    const auto faults_with = [&](auto... changes) {
        std::string bytes = idx;
        (put(bytes, changes.first, changes.second), ...);
        io::write_file(idx_path(prefix), bytes, io::Overwrite::yes);
        VerifyRules rules;
        rules.eod_id = 9;
        return verify_dataset(prefix, rules).faults;
    };
    const auto length = [](size_t s, i32 value) { return std::pair(34 + 4 * s, value); };
    const auto pointer = [](size_t s, i64 value) { return std::pair(54 + 8 * s, value); };
    const auto document = [](size_t d, i64 value) { return std::pair(94 + 8 * d, value); };
    CHECK(faults_with().empty());
    const auto only = [](const std::vector<std::string>& faults) {
        INFO(fmt::format("{}", fmt::join(faults, "\n")));
        CHECK(faults.size() == 1);
        return faults.empty() ? std::string() : faults[0];
    };
    CHECK_THAT(only(faults_with(pointer(1, 3))), ContainsSubstring("pointer 3 of sequence 1 "));
    CHECK_THAT(only(faults_with(pointer(1, -6))), ContainsSubstring("pointer -6 of sequence 1 "));
    CHECK_THAT(only(faults_with(length(1, -1))), ContainsSubstring("length -1 of sequence 1 "));
    CHECK_THAT(only(faults_with(length(1, 99))), HasInOrder("sequence 1 ", "12 tokens"));
    CHECK_THAT(only(faults_with(length(1, 2))), HasInOrder("sequence 2 ", "token 4", "5"));
    CHECK_THAT(only(faults_with(pointer(1, 10))), HasInOrder("sequence 1 ", "token 5", "3"));
    CHECK_THAT(only(faults_with(document(2, 99))), HasInOrder("document 2 ", "sequence 99"));
    const auto two = faults_with(pointer(1, 10), length(3, 1));
    REQUIRE(two.size() == 2);
    CHECK_THAT(two[1], HasInOrder("sequence 4 ", "token 8", "7"));
}

TEST_CASE("Megatron's rule for the token type") {
    CHECK(token_type_for(65499) == TokenType::u16);
    CHECK(token_type_for(65500) == TokenType::i32);
}

TEST_CASE("a sequence beyond the tokens is an error of the file, not a failed check") {
    const test::TempDir scratch;
    const std::string prefix = write_small(scratch, "a");
    std::string idx = io::read_file(idx_path(prefix));
    put<i32>(idx, idx_header_bytes, 7);  // the dataset has 6 tokens
    io::write_file(idx_path(prefix), idx, io::Overwrite::yes);
    const auto d = IndexedDataset::open(prefix);
    CHECK_THROWS_WITH(d.length(0), HasInOrder("sequence 0 ", "7 tokens", "6"));
    CHECK_FALSE(verify_dataset(prefix, {}).faults.empty());
}
