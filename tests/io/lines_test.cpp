// SPDX-License-Identifier: Apache-2.0
#include "io/lines.hpp"

#include <fstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;

namespace {

std::vector<std::string> lines_of(const std::string& content) {
    const test::TempDir dir;
    const std::string path = dir.path() + "/log";
    std::ofstream(path, std::ios::binary) << content;
    std::vector<std::string> lines;
    io::for_each_line(*io::open_stream(path),
                      [&](std::string_view line) { lines.emplace_back(line); });
    return lines;
}

}  // namespace

TEST_CASE("lines end with newlines, carriage returns, both or the stream") {
    CHECK(lines_of("").empty());
    CHECK(lines_of("\n\r\n").empty());
    CHECK(lines_of("a\nbc\r\n\nd\re\r\rf") == std::vector<std::string>{"a", "bc", "d", "e", "f"});
    CHECK(lines_of(std::string("a\0b\n", 4)) == std::vector<std::string>{std::string("a\0b", 3)});
}

TEST_CASE("lines across blocks, and lines of any length") {
    std::string content;
    std::vector<std::string> expected;
    for (size_t n = 1; content.size() < 3'000'000; n = n * 7 % 50021) {
        expected.emplace_back(n, static_cast<char>('a' + n % 26));
        content += expected.back() + "\n";
    }
    CHECK(lines_of(content) == expected);

    const size_t n = 40 * io::longest_line + 5;
    const std::vector<std::string> pieces = lines_of("x\n" + std::string(n, 'y') + "\nz\n");
    REQUIRE(pieces.size() == 43);
    CHECK(pieces.front() == "x");
    CHECK(pieces[41] == std::string(5, 'y'));
    CHECK(pieces.back() == "z");
}
