// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <limits>

#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using io::json_get;
using io::json_get_or;
using test::caught;

namespace {

const io::Json document = io::parse_json(R"({
    "flag": true, "small": 300, "negative": -5, "big": 18446744073709551615, "real": 2.5,
    "whole_real": 2.0, "name": "gpt2", "none": null, "list": [1, 2, 3], "mixed": [1, "two"],
    "inner": {"x": 1}, "huge_real": 1e300})",
                                         "config.json");

template <typename T>
std::string refusal(const char* key) {
    const auto error = caught([&] { json_get<T>(document, key, "config.json"); });
    CHECK((error.code == Exit::failure || !error.threw));
    CHECK((!error.threw || error.message.starts_with("config.json: ")));
    return error.message;
}

}  // namespace

TEST_CASE("values are returned in the requested type") {
    CHECK(json_get<bool>(document, "flag", "f"));
    CHECK(json_get<int>(document, "small", "f") == 300);
    CHECK(json_get<i64>(document, "negative", "f") == -5);
    CHECK(json_get<u64>(document, "big", "f") == std::numeric_limits<u64>::max());
    CHECK(json_get<double>(document, "real", "f") == 2.5);
    CHECK(json_get<double>(document, "small", "f") == 300.0);
    CHECK(json_get<float>(document, "real", "f") == 2.5F);
    CHECK(json_get<std::string>(document, "name", "f") == "gpt2");
    CHECK(json_get<std::vector<i64>>(document, "list", "f") == std::vector<i64>{1, 2, 3});
    CHECK(json_get<int>(json_get<io::Json>(document, "inner", "f"), "x", "f") == 1);
    CHECK(json_get_or<int>(document, "absent", 7, "f") == 7);
    CHECK(json_get_or<int>(document, "none", 7, "f") == 7);
    CHECK(json_get_or<int>(document, "small", 7, "f") == 300);
}

TEST_CASE("a wrong type: the error names file, key and value") {
    CHECK_THAT(refusal<int>("absent"), HasInOrder("'absent'", "missing"));
    CHECK_THAT(refusal<int>("name"), HasInOrder("'name'", "whole number", "\"gpt2\""));
    CHECK_THAT(refusal<int>("whole_real"), HasInOrder("'whole_real'", "whole number", "2.0"));
    CHECK_THAT(refusal<bool>("small"), HasInOrder("'small'", "true or false", "300"));
    CHECK_THAT(refusal<double>("name"), HasInOrder("'name'", "number", "\"gpt2\""));
    CHECK_THAT(refusal<std::string>("none"), HasInOrder("'none'", "string", "null"));
    CHECK_THAT(refusal<std::vector<int>>("inner"), HasInOrder("'inner'", "list", "{\"x\":1}"));
    CHECK_THAT(refusal<std::vector<int>>("mixed"),
               HasInOrder("'mixed'[1]", "whole number", "\"two\""));
    CHECK(caught([] { json_get_or<int>(document, "name", 1, "f"); }).threw);
    CHECK(caught([] { json_get<int>(io::Json::array(), "x", "f"); }).says("f: ", "object"));
}

TEST_CASE("numbers outside the range of the type are refused, never wrapped") {
    CHECK_THAT(refusal<u8>("small"), HasInOrder("'small' ", "0..255", "300"));
    CHECK(refusal<i64>("big").find("out of range") != std::string::npos);
    CHECK(refusal<u64>("negative").find("out of range") != std::string::npos);
    CHECK(refusal<u32>("negative").find("out of range") != std::string::npos);
    CHECK(refusal<i32>("big").find("out of range") != std::string::npos);
    CHECK(refusal<float>("huge_real").find("out of range") != std::string::npos);
}

TEST_CASE("invalid JSON: the error names file and position") {
    for (const char* text :
         {"", "{", "{\"a\": 1,}", "[1, 2] x", "{\"a\": nan}", "\"\xff\"", "\"\\ud800\""}) {
        const auto error = caught([&] { io::parse_json(text, "f.json"); });
        CHECK(error.code == Exit::failure);
        CHECK(error.says("f.json: ", "line 1, column "));
        CHECK_FALSE(error.says("json.exception"));
        CHECK_FALSE(error.says("\n"));
    }
    const auto error = caught([] { io::parse_json("{\"a\": 1,\n \"b\": }", "f.json"); });
    CHECK(error.says("f.json: ", "line 2, column 7: ", "'}'", "'['"));
    const std::string deep(1'000'000, '[');
    CHECK(caught([&] { io::parse_json(deep, "f.json"); }).threw);
    const test::TempDir dir;
    CHECK(caught([&] { io::read_json(dir / "no"); }).says(dir / "no: "));
}

TEST_CASE("a line has no control characters") {
    const std::string text = "a\u009b2J\x7f\x1b\u00a0\u0104";
    const std::string line = io::json_line({{"text", text}});
    CHECK(line == "{\"text\":\"a\\u009b2J\\u007f\\u001b\u00a0\u0104\"}\n");
    CHECK(io::parse_json(line, "x").at("text") == text);
}

TEST_CASE("a document is the same after writing and reading") {
    const test::TempDir dir;
    const std::string text = io::json_text(document);
    CHECK(text.ends_with("}\n"));
    io::write_file(dir / "f", text, io::Overwrite::no);
    CHECK(io::read_json(dir / "f") == document);
    const double third = 1.0 / 3.0;
    CHECK(io::parse_json(io::json_text(io::Json(third)), "f").get<double>() == third);
    CHECK(io::json_text(io::Json("bad \xff byte")) == "\"bad \xef\xbf\xbd byte\"\n");
    io::OrderedJson ordered;
    ordered["z"] = 1;
    ordered["a"] = 2;
    CHECK(io::json_text(ordered) == "{\n  \"z\": 1,\n  \"a\": 2\n}\n");
}

TEST_CASE("a document is refused beyond the limits of depth and size") {
    const auto nested = [](int depth) {
        return std::string(static_cast<size_t>(depth), '[') +
               std::string(static_cast<size_t>(depth), ']');
    };
    CHECK(io::parse_json(nested(io::max_json_depth), "f").is_array());
    for (const int depth : {io::max_json_depth + 1, 300'000}) {
        const auto error = caught([&] { (void)io::parse_json(nested(depth), "f"); });
        CHECK(error.code == Exit::failure);
        CHECK(error.says("f: ", "deeply"));
        CHECK(caught([&] { (void)io::parse_ordered_json(nested(depth), "f"); }).threw);
        CHECK(io::json_or_null(nested(depth)).is_null());
        CHECK(io::ordered_json_or_null(nested(depth)).is_null());
    }
    CHECK(caught([] {
              (void)io::parse_json("{\n \"a\": " + std::string(100'000, '{'), "f");
          }).says("line 2, column 106"));
    // Brackets in strings do not count, nor does a quote after a backslash.
    CHECK(
        io::parse_json("\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"", "f")
            .is_string());
    CHECK(io::json_or_null("[1,").is_null());
    CHECK(io::json_or_null("[1]") == io::Json{1});

    // The text of one value has at least two bytes, and needs some hundred bytes as a value.
    std::string many = "[";
    for (i64 n = 0; n < io::max_json_values; ++n) many += "{},";
    many.back() = ']';
    const auto error = caught([&] { (void)io::parse_json(many, "f"); });
    CHECK(error.code == Exit::failure);
    CHECK(error.says("f: ", "large", std::to_string(io::max_json_values)));
    CHECK(io::ordered_json_or_null(many).is_null());
    // Commas in strings do not count.
    CHECK(io::parse_json("\"" + std::string(io::max_json_values + 1, ',') + "\"", "f").is_string());

    const test::TempDir dir;
    const std::string path = dir / "sparse.json";
    io::write_file(path, "{}", io::Overwrite::yes);
    std::filesystem::resize_file(path, static_cast<std::uintmax_t>(io::max_json_bytes) + 1);
    CHECK(caught([&] { (void)io::read_json(path); }).says(path + ": ", "large"));
}
