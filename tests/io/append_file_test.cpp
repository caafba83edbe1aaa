// SPDX-License-Identifier: Apache-2.0
// AppendFile: content after every flush, through the page cache and with O_DIRECT.
#include <random>

#include "io/append_file.hpp"
#include "io/checked.hpp"
#include "io/fault.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;

namespace {

// Returns `size` bytes that depend on their offsets.
std::string stretch(i64 begin, size_t size) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i)
        bytes[i] = static_cast<char>((begin + static_cast<i64>(i)) * 37 % 251);
    return bytes;
}

void write(io::AppendFile& file, const std::string& text) {
    file.write(std::as_bytes(std::span(text)));
}

}  // namespace

TEST_CASE("a file system without O_DIRECT gets writes through the page cache") {
    const test::TempDir dir;
    for (i64 k = 1; k < 40; ++k) {
        const std::string path = dir / std::to_string(k);
        auto file = io::AppendFile::open(path, io::ReadAgain::no);
        io::fault::arm(io::fault::Action::cached_only, k);
        i64 size = 0;
        for (int i = 0; i < 7; ++i, size += 3'000'001) write(file, stretch(size, 3'000'001));
        file.flush();
        io::fault::arm(io::fault::Action::none, 0);
        CHECK(io::read_file(path) == stretch(0, static_cast<size_t>(size)));
        io::checked::unlink(path);
    }
}

TEST_CASE("an AppendFile holds all appended bytes") {
    const test::TempDir dir;
    for (const io::ReadAgain read_again : {io::ReadAgain::yes, io::ReadAgain::no}) {
        const std::string path = dir / (read_again == io::ReadAgain::no ? "past" : "through");
        std::mt19937 random(11);
        auto file = io::AppendFile::open(path, read_again);
        i64 size = 0;
        for (const size_t n :
             {0U, 1U, 4095U, 4096U, 5000U, 131072U, 3'000'001U, 7U, 2'097'152U, 100'000U}) {
            write(file, stretch(size, n));
            size += static_cast<i64>(n);
            CHECK(file.size() == size);
            if (random() % 2 == 0) continue;
            file.flush();
            CHECK(io::read_file(path) == stretch(0, static_cast<size_t>(size)));
        }
        file.truncate(1'000'003);
        write(file, stretch(1'000'003, 300'000));
        file.sync();
        CHECK(io::read_file(path) == stretch(0, 1'300'003));
        // Another process continues the file.
        auto again = io::AppendFile::open(path, read_again);
        CHECK(again.size() == 1'300'003);
        again.truncate(8192);
        write(again, stretch(8192, 5'000'000));
        again.flush();
        CHECK(io::read_file(path) == stretch(0, 5'008'192));
    }
}
