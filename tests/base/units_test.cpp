// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "base/units.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using test::caught;

namespace {

bool count_refused(const char* text) {
    const auto error = caught([&] { parse_count("--n", text); });
    return error.threw && error.code == Exit::usage && error.says("--n: ") && error.says(text);
}

bool size_refused(const char* text) {
    const auto error = caught([&] { parse_size("--n", text); });
    return error.threw && error.code == Exit::usage && error.says("--n: ") && error.says(text);
}

}  // namespace

TEST_CASE("counts") {
    CHECK(parse_count("n", "0") == 0);
    CHECK(parse_count("n", "12") == 12);
    CHECK(parse_count("n", "007") == 7);
    CHECK(parse_count("n", "5_000_000") == 5'000'000);
    CHECK(parse_count("n", "5M") == 5'000'000);
    CHECK(parse_count("n", "5k") == 5'000);
    CHECK(parse_count("n", "5K") == 5'000);
    CHECK(parse_count("n", "300B") == 300'000'000'000);
    CHECK(parse_count("n", "300G") == 300'000'000'000);
    CHECK(parse_count("n", "1.5B") == 1'500'000'000);
    CHECK(parse_count("n", "0.000001M") == 1);
    CHECK(parse_count("n", "1.000") == 1);
    CHECK(parse_count("n", "2T") == 2'000'000'000'000);
    CHECK(parse_count("n", "9223372036854775807") == std::numeric_limits<i64>::max());
}

TEST_CASE("counts and sizes with many decimals are exact, or are refused for the right reason") {
    CHECK(parse_count("n", "0.10000000000000000000K") == 100);
    CHECK(parse_count("n", "123456789012.123456000000000000000000M") == 123'456'789'012'123'456);
    CHECK(parse_size("n", "0.00000095367431640625PiB") == i64{1} << 30);
    const auto says = [](const char* text, const char* part) {
        return caught([&] { parse_count("--n", text); }).says(part);
    };
    CHECK(says("0.1000000000000000001K", "is not a whole number: use fewer decimals"));
    CHECK(says("0.0000000000000000000001K", "is not a whole number: use fewer decimals"));
    CHECK(says("1.1234567890123456789K", "at most 19 significant digits and at most 38 decimals"));
    CHECK(says("0.000000000000000000000000000000000000001", "at most 38 decimals"));
    CHECK(says("12345678901234567890.5", "does not fit in 64 bits: give a smaller number"));
    CHECK(says("9223372036854775808", "does not fit in 64 bits: give a smaller number"));
}

TEST_CASE("text that is not a count is refused") {
    for (const char* text : {"",
                             " ",
                             "5Mx",
                             "x5",
                             "5 M",
                             " 5",
                             "5 ",
                             "-5",
                             "+5",
                             "5m",
                             "5MB",
                             "1e9",
                             "0x10",
                             ".5",
                             "5.",
                             "1.5",
                             "1.0001k",
                             "_5",
                             "5_",
                             "5__0",
                             "5_M",
                             "1.2.3",
                             "nan",
                             "B",
                             "5,000",
                             "9223372036854775808",
                             "9223372036855T",
                             "99999999999999999999999999999999999999999",
                             "0.00000000000000000000000000000000001"}) {
        INFO("'" << text << "'");
        CHECK(count_refused(text));
    }
}

TEST_CASE("sizes: GB is decimal, GiB and the bare letters are binary") {
    CHECK(parse_size("n", "0") == 0);
    CHECK(parse_size("n", "512") == 512);
    CHECK(parse_size("n", "512B") == 512);
    CHECK(parse_size("n", "512k") == 512 * 1024);
    CHECK(parse_size("n", "1K") == 1024);
    CHECK(parse_size("n", "1KiB") == 1024);
    CHECK(parse_size("n", "1KB") == 1000);
    CHECK(parse_size("n", "1kB") == 1000);
    CHECK(parse_size("n", "2GiB") == i64{2} << 30);
    CHECK(parse_size("n", "2G") == i64{2} << 30);
    CHECK(parse_size("n", "80GB") == 80'000'000'000);
    CHECK(parse_size("n", "1.5MiB") == 3 << 19);
    CHECK(parse_size("n", "3TiB") == i64{3} << 40);
    CHECK(parse_size("n", "1P") == i64{1} << 50);
    for (const char* text :
         {"", "G", "2gib", "2Gb", "2GiBs", "2 GiB", "-1", "0.3KiB", "1.5", "8192P"}) {
        INFO("'" << text << "'");
        CHECK(size_refused(text));
    }
}

TEST_CASE("durations") {
    CHECK(parse_duration("t", "90") == 90);
    CHECK(parse_duration("t", "90s") == 90);
    CHECK(parse_duration("t", "30m") == 1800);
    CHECK(parse_duration("t", "20h") == 72000);
    CHECK(parse_duration("t", "2d") == 172800);
    CHECK(parse_duration("t", "1.5h") == 5400);
    CHECK(parse_duration("t", "500ms") == 0.5);
    CHECK(parse_duration("t", "0.1") == 0.1);
    for (const char* text : {"", "s", "5x", "1h30", "-1s", "1:30", "5 s", "inf"}) {
        INFO("'" << text << "'");
        CHECK(caught([&] { parse_duration("t", text); }).code == Exit::usage);
    }
}

TEST_CASE("floating-point numbers") {
    CHECK(parse_number("x", "0.1") == 0.1);
    CHECK(parse_number("x", "3e-4") == 3e-4);
    CHECK(parse_number("x", "-2") == -2);
    for (const char* text : {"", "inf", "nan", "1e999", "1x", " 1", "1 ", "0x1p3", "+", "1e"}) {
        INFO("'" << text << "'");
        CHECK(caught([&] { parse_number("x", text); }).code == Exit::usage);
    }
}

TEST_CASE("formatting of sizes, counts and durations") {
    CHECK(human_size(0) == "0 B");
    CHECK(human_size(1023) == "1023 B");
    CHECK(human_size(1024) == "1.00 KiB");
    CHECK(human_size(1'449'551'462) == "1.35 GiB");
    CHECK(human_size((i64{1} << 30) - 1) == "1.00 GiB");
    CHECK(human_size(std::numeric_limits<i64>::max()) == "8.00 EiB");
    CHECK(human_size(-2048) == "-2.00 KiB");
    CHECK(decimal_size(999) == "999 B");
    CHECK(decimal_size(1000) == "1.00 kB");
    CHECK(decimal_size(1'449'551'462) == "1.45 GB");
    CHECK(decimal_size(i64{1} << 32) == "4.29 GB");
    CHECK(decimal_size(-2'000'000) == "-2.00 MB");
    CHECK(human_count(7) == "7");
    CHECK(human_count(124'439'808) == "124.4M");
    CHECK(human_count(999'999) == "1.0M");
    CHECK(human_count(3e11) == "300.0B");
    CHECK(human_duration(0.25) == "250 ms");
    CHECK(human_duration(12.34) == "12.3 s");
    CHECK(human_duration(59.99) == "1 min 00 s");
    CHECK(human_duration(185) == "3 min 05 s");
    CHECK(human_duration(8.64e24) == "1e+20 d");
    CHECK(human_duration(3720) == "1 h 02 min");
    CHECK(human_duration(90'000) == "1 d 01 h");
    CHECK(iso_time(0) == "1970-01-01T00:00:00Z");
    CHECK(iso_time(1'769'860'800) == "2026-01-31T12:00:00Z");
}
