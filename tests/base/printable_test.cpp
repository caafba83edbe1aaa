// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include "support/catch.hpp"

using lm::printable;
using lm::printable_lines;

TEST_CASE("text is not changed, control characters become escapes") {
    CHECK(printable("") == "");
    CHECK(printable("a b\\c é 漢 \U0001F600") == "a b\\c é 漢 \U0001F600");
    CHECK(printable("a\nb\tc\r") == "a\\nb\\tc\\r");
    CHECK(printable("\x1b]0;t\a\x7f") == "\\x1b]0;t\\x07\\x7f");
    CHECK(printable(std::string_view("\0x", 2)) == "\\x00x");
    CHECK(printable(printable("\x1b[2J")) == "\\x1b[2J");
}

TEST_CASE("the control characters of C1, and bytes that are not UTF-8, become escapes") {
    CHECK(printable("\xc2\x9b"
                    "31m") == "\\xc2\\x9b31m");
    CHECK(printable("\xc2\xa0") == "\xc2\xa0");  // no-break space
    CHECK(printable("caf\xe9") == "caf\\xe9");
    CHECK(printable("\x9bm") == "\\x9bm");
}

TEST_CASE("lines stay lines") {
    CHECK(printable_lines("a\n\x1b\n") == "a\n\\x1b\n");
    CHECK(printable_lines("") == "");
    CHECK(printable_lines("x") == "x");
}
