// SPDX-License-Identifier: Apache-2.0
#include "eval/text_stream.hpp"

#include "support/catch.hpp"

using lm::eval::TextStream;

TEST_CASE("characters are printed whole") {
    TextStream stream({});
    CHECK(stream.append("a\xc3") == "a");
    CHECK(stream.append("\xa9") == "\u00e9");
    CHECK(stream.append("\xf0\x9f") == "");
    CHECK(stream.append("\x98\x80z") == "\U0001F600z");
    CHECK(stream.append("\xe2\x82") == "");
    CHECK(stream.finish() == "\ufffd");
    CHECK(stream.append("\xff") == "\ufffd");
}

TEST_CASE("a stop text across tokens ends the text and is not printed") {
    TextStream stream({"\n\n", "END", ""});
    CHECK(stream.append("one\n") == "one");
    CHECK(stream.append("two E") == "\ntwo ");
    CHECK(stream.append("N") == "");
    CHECK(stream.append("x") == "ENx");
    CHECK(stream.append("yEN") == "y");
    CHECK_FALSE(stream.stopped());
    CHECK(stream.append("D rest") == "");
    CHECK(stream.stopped());
    CHECK(stream.finish() == "");
}

TEST_CASE("the first of several stop texts counts") {
    TextStream stream({"c", "b"});
    CHECK(stream.append("abc") == "a");
    CHECK(stream.stopped());
}

TEST_CASE("a kept stop text does not cut a character") {
    TextStream stream({"\xa9x"});  // begins within a character
    CHECK(stream.append("a\xc3\xa9") == "a");
    CHECK(stream.append("b") ==
          "\u00e9"
          "b");
}
