// SPDX-License-Identifier: Apache-2.0
#include "plot/svg.hpp"

#include "support/catch.hpp"

using namespace lm::plot;

TEST_CASE("text in a picture is valid XML") {
    CHECK(xml_escaped("a<b> & \"c\"") == "a&lt;b&gt; &amp; &quot;c&quot;");
    CHECK(xml_escaped("a\x1b[0m\n") == "a?[0m?");
    CHECK(xml_escaped("10⁻⁵ é") == "10⁻⁵ é");
    CHECK(xml_escaped("\xff?") == "??");
    Svg svg(100, 50, "a & b");
    svg.text("label", {1, 2.345}, "x<y", {});
    svg.line("axis", {0, -0.0001}, {10, 0}, {"#000000", 0.5, "3 2"});
    const std::string document = svg.finish();
    CHECK_THAT(document, ContainsSubstring("<title>a &amp; b</title>"));
    CHECK_THAT(document,
               ContainsSubstring(R"(x="1" y="2.35")") || ContainsSubstring(R"(x="1" y="2.34")"));
    CHECK_THAT(document, ContainsSubstring(R"(y1="0" x2="10")"));
    CHECK_THAT(document, ContainsSubstring("stroke-dasharray=\"3 2\""));
    CHECK(document.ends_with("</svg>\n"));
}

TEST_CASE("long names are shortened in the middle") {
    CHECK(elided("short", 8, 100) == "short");
    const std::string name = "/a/long/path/with/many/parts/of/a/training/main_log.txt";
    const std::string shorter = elided(name, 8, 100);
    CHECK(text_width(shorter, 8) <= 100);
    CHECK_THAT(shorter, ContainsSubstring("..."));
    CHECK(shorter.front() == '/');
    CHECK(shorter.back() == 't');
    CHECK(elided("ééééééééééééééé", 8, 30).size() % 2 == 1);  // whole characters around the dots
    CHECK(text_width("111", 10) == Approx(18.3).epsilon(0.01));
}
