// SPDX-License-Identifier: Apache-2.0
// A full disk must not end a training.
#include <fstream>
#include <sstream>
#include <vector>

#include "base/log.hpp"
#include "io/fault.hpp"
#include "metrics/event_file.hpp"
#include "metrics/line_file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using io::fault::Action;

namespace {

struct Warnings {
    std::vector<std::string> seen;
    Warnings() {
        set_log_sink([this](Severity, std::string_view text) { seen.emplace_back(text); });
    }
    ~Warnings() {
        set_log_sink({});
        io::fault::arm(Action::none, 0);
    }
};

}  // namespace

TEST_CASE("lines that cannot be written are counted, and later lines are complete") {
    const test::TempDir dir;
    Warnings warnings;
    auto log = metrics::LineFile::open(dir / "log");
    log.write("one");
    io::fault::arm(Action::short_write, 1);
    log.write("half of this is lost");
    io::fault::arm(Action::none, 0);
    log.write("three");
    log.write("four");
    REQUIRE(warnings.seen.size() == 2);
    CHECK_THAT(warnings.seen[0], StartsWith(dir / "log: "));
    CHECK_THAT(warnings.seen[1], EndsWith(": 1"));
    std::ifstream file(dir / "log");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    REQUIRE(lines.size() == 4);
    CHECK(lines[0] == "one");
    CHECK(lines[2] == "three");
    CHECK(lines[3] == "four");
}

TEST_CASE("an event file that cannot be written is closed with one warning") {
    const test::TempDir dir;
    Warnings warnings;
    auto file = metrics::EventFile::create(dir.path(), std::nullopt);
    io::fault::arm(Action::fail, 1);
    for (int k = 0; k < 3; ++k) {
        file.scalar(k, "x", 1.0);
        file.flush();
    }
    CHECK(warnings.seen.size() == 1);
}
