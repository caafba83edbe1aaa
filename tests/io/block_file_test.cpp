// SPDX-License-Identifier: Apache-2.0
// Files in blocks: direct and through the page cache, errors of one of several threads.
#include "io/block_file.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "io/checked.hpp"
#include "io/fault.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;

namespace {

std::vector<std::byte> pattern(i64 n) {
    std::vector<std::byte> bytes(static_cast<size_t>(n));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 131 % 251);
    return bytes;
}

}  // namespace

TEST_CASE("blocks: any place and size is written and read, also where direct writes fail") {
    for (const bool cached : {false, true}) {
        const test::TempDir dir;
        const std::string path = dir / "f";
        const i64 size = 3 * io::block_alignment + 100;
        const std::vector<std::byte> bytes = pattern(size);
        const auto file = io::BlockFile::create(path, size);
        CHECK(io::file_size(path) == size);
        if (cached) io::fault::arm(io::fault::Action::cached_only, 1);
        const io::AlignedBlock block;
        std::ranges::copy(bytes, block.first(size).begin());
        file.write(block.first(size), 0);
        io::fault::arm(io::fault::Action::none, 0);
        file.sync();
        const auto reader = io::BlockFile::open_read(path);
        for (const auto& [offset, n] : {std::pair<i64, i64>{0, size},
                                        {1, 5},
                                        {4096, 4096},
                                        {4095, 4098},
                                        {size - 1, 1},
                                        {8000, 0}}) {
            io::AlignedBlock memory;
            CHECK(std::ranges::equal(
                reader.read(memory, offset, n),
                std::span(bytes).subspan(static_cast<size_t>(offset), static_cast<size_t>(n))));
        }
        io::AlignedBlock memory;
        CHECK_THROWS_AS(reader.read(memory, size - 1, 2), Error);
        CHECK_THROWS_AS(io::BlockFile::create(path, 1), Error);
    }
}

TEST_CASE("blocks: a stream keeps the order, and the first error of the threads is thrown") {
    const test::TempDir dir;
    const std::vector<std::byte> bytes = pattern(2 * io::block_bytes + 12345);
    const std::string path = dir / "s";
    io::BlockStream stream(io::BlockFile::create(path, 0));
    for (size_t at = 0; at < bytes.size(); at += 5'000'011) {
        stream.append(std::span(bytes).subspan(at, std::min<size_t>(5'000'011, bytes.size() - at)));
    }
    stream.finish();
    const std::string text = io::read_file(path);
    CHECK(std::ranges::equal(std::as_bytes(std::span(text)), bytes));

    CHECK_THROWS_AS(io::for_each_block(1000, 4,
                                       [&](i64 i, io::AlignedBlock&) {
                                           if (i == 3) throw Error(Exit::failure, "x: stop");
                                       }),
                    Error);
}
