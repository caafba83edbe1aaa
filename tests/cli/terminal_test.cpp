// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.hpp"

#include "support/catch.hpp"

using lm::cli::folded_line;

TEST_CASE("a line of a table is divided at the width of the terminal") {
    const std::vector<std::string> heading = {"HOST  ", "  SIZE", "  USED", "NOTE"};
    const std::vector<std::string> row = {"n1    ", " 1 GiB", "   0 B", "two words"};
    CHECK(folded_line(heading, 0) == "HOST      SIZE    USED  NOTE\n");
    CHECK(folded_line(row, 0) == "n1       1 GiB     0 B  two words\n");
    // The columns of the heading and of the row stay below each other.
    CHECK(folded_line(heading, 20) == "HOST      SIZE\n      USED  NOTE\n");
    CHECK(folded_line(row, 20) == "n1       1 GiB\n       0 B\n    two words\n");
    CHECK(folded_line(row, 33) == folded_line(row, 0));
    CHECK(folded_line(row, 32) == "n1       1 GiB     0 B\n    two words\n");
    // The padding of the last cell needs no room, and a cell that is longer than a line is wrapped.
    CHECK(folded_line({"name", "one  "}, 9) == "name  one\n");
    CHECK(folded_line({"name", "one two three"}, 12) == "name\n    one two\n    three\n");
    CHECK(folded_line({"one two three"}, 9) == "one\n    two\n    three\n");
    CHECK(folded_line({"a", "b"}, 1) == "a\n    b\n");
    CHECK(folded_line({}, 80) == "\n");
}

TEST_CASE("a message is broken between words at the width of the terminal") {
    using lm::cli::folded_message;
    CHECK(folded_message("lm-x: a.txt: one two", 0) == "lm-x: a.txt: one two");
    CHECK(folded_message("lm-x: a.txt: one two", 20) == "lm-x: a.txt: one two");
    CHECK(folded_message("lm-x: a.txt: one two", 19) == "lm-x: a.txt:\n    one two");
    CHECK(folded_message("lm-x: a.txt: one two", 12) == "lm-x:\n    a.txt:\n    one two");
    CHECK(folded_message("a long/path/of/a/file b", 10) == "a\n    long/path/of/a/file\n    b");
}

TEST_CASE("lines of dashes are cut to the width of the terminal, other lines are not") {
    using lm::cli::with_short_rules;
    CHECK(with_short_rules("------\n loss - 5\n------", 4) == "----\n loss - 5\n----");
    CHECK(with_short_rules("------\n", 6) == "------\n");
    CHECK(with_short_rules("------", 0) == "------");
    CHECK(with_short_rules("\n\n-", 1) == "\n\n-");
}
