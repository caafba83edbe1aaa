// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/safetensors.hpp"

#include <cstring>

#include "support.hpp"
#include "support/catch.hpp"
#include "support/safetensors_reader.hpp"

using namespace lm;
using namespace lm::ckpt;

namespace {

std::string file_of(const std::string& header, size_t data_bytes) {
    const u64 length = header.size();
    std::string text(8, '\0');
    std::memcpy(text.data(), &length, 8);
    return text + header + std::string(data_bytes, '\1');
}

std::string parse_error(const std::string& bytes) {
    return test::error_of([&] {
        parse_safetensors_header(std::as_bytes(std::span(bytes)), static_cast<i64>(bytes.size()),
                                 "F");
    });
}

std::string header_error(const std::string& header, size_t data_bytes) {
    return parse_error(file_of(header, data_bytes));
}

}  // namespace

TEST_CASE("a file of the reference implementation is rewritten byte for byte") {
    const test::ScratchDirectory scratch;
    for (const char* name : {"gpt2_tiny", "gpt2_odd"}) {
        const std::string path = std::string(LM_TEST_DIR) + "/golden/" + name + ".safetensors";
        const auto reader = test::SafetensorsReader::open(path);
        auto entries = reader.entries();
        std::reverse(entries.begin(), entries.end());
        const std::string copy = scratch / name;
        auto writer = SafetensorsWriter::create(copy, entries, reader.metadata());
        for (size_t i = 0; i < writer.entries().size(); ++i) {
            const auto bytes = reader.bytes(*reader.find(writer.entries()[i].name));
            const size_t half = bytes.size() / 2;
            writer.append(bytes.first(half));
            writer.append(bytes.subspan(half));
            CHECK(writer.checksum(i) == digest(bytes));
        }
        writer.commit();
        CHECK(test::read(copy) == test::read(path));
        CHECK(writer.header_digest() == digest(test::SafetensorsReader::open(copy).header_bytes()));
        CHECK(writer.size() == test::SafetensorsReader::open(copy).size());
    }
}

TEST_CASE("safetensors: files without tensors, empty tensors and scalars") {
    const test::ScratchDirectory scratch;
    auto none = SafetensorsWriter::create(scratch / "none", {}, {});
    none.commit();
    CHECK(test::read(scratch / "none") == file_of("{}      ", 0));
    CHECK(test::SafetensorsReader::open(scratch / "none").entries().empty());

    auto writer = SafetensorsWriter::create(
        scratch / "some",
        {{"z", "F32", {0, 7}, 0, 0}, {"s", "F64", {}, 0, 0}, {"e", "U8", {0}, 0, 0}},
        {{"format", "pt"}});
    const double value = 2.5;
    writer.append(std::as_bytes(std::span(&value, 1)));
    writer.commit();
    const auto reader = test::SafetensorsReader::open(scratch / "some");
    REQUIRE(reader.entries().size() == 3);
    CHECK(reader.find("s")->shape.empty());
    CHECK(reader.bytes(*reader.find("s")).size() == 8);
    CHECK(reader.bytes(*reader.find("z")).empty());
    CHECK(reader.find("none") == nullptr);
    CHECK(reader.metadata() == Metadata{{"format", "pt"}});
}

TEST_CASE("safetensors: invalid headers are refused with the name of the entry") {
    const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    CHECK(header_error(good, 8) == "no error");
    CHECK(header_error(good + "    ", 8) == "no error");
    CHECK_THAT(header_error(good, 7), HasInOrder("F: ", "truncated"));
    CHECK_THAT(header_error(good, 9), ContainsSubstring("extra bytes"));
    CHECK_THAT(parse_error("abc"), ContainsSubstring("got 3"));
    CHECK_THAT(parse_error(std::string(8, '\xff')), ContainsSubstring(" 100000000"));
    CHECK_THAT(parse_error(file_of(good, 8).substr(0, 30)), ContainsSubstring("truncated"));
    CHECK_THAT(header_error(" " + good, 8), ContainsSubstring("'{'"));
    CHECK_THAT(header_error("", 0), ContainsSubstring("'{'"));
    CHECK_THAT(header_error(good + "x", 8), ContainsSubstring("JSON"));
    CHECK_THAT(header_error("{\"\xff\":{}}", 0), ContainsSubstring("JSON"));

    const auto entry = [](const std::string& dtype, const std::string& shape,
                          const std::string& offsets) {
        return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" +
               offsets + "}}";
    };
    CHECK_THAT(header_error(entry("\"F33\"", "[2]", "[0,8]"), 8),
               HasInOrder("\"a\"", "dtype \"F33\""));
    CHECK_THAT(header_error(entry("\"F32\"", "[3]", "[0,8]"), 8), ContainsSubstring("12 bytes"));
    CHECK_THAT(header_error(entry("\"F32\"", "[-2]", "[0,8]"), 8), ContainsSubstring("negative"));
    CHECK_THAT(header_error(entry("\"F32\"", "[2.0]", "[0,8]"), 8), ContainsSubstring("fraction"));
    CHECK_THAT(header_error(entry("\"F32\"", "2", "[0,8]"), 8), ContainsSubstring("a number"));
    CHECK_THAT(header_error(entry("\"F32\"", "[[2]]", "[0,8]"), 8), ContainsSubstring("a list"));
    CHECK_THAT(header_error(entry("\"F32\"", "[2]", "[8]"), 8), ContainsSubstring("two numbers"));
    CHECK_THAT(header_error(entry("\"F32\"", "[2]", "[8,0]"), 8), HasInOrder("\"a\"", "end "));
    CHECK_THAT(header_error(entry("\"F32\"", "[2]", "[4,12]"), 12), HasInOrder("byte 0", "4"));
    CHECK_THAT(header_error(entry("\"F32\"", "[4294967296,4294967296]", "[0,8]"), 8),
               ContainsSubstring("63 bits"));
    CHECK_THAT(header_error(entry("\"F32\"", "[18446744073709551615]", "[0,8]"), 8),
               ContainsSubstring("63 bits"));
    CHECK_THAT(header_error(entry("\"F4\"", "[3]", "[0,1]"), 1),
               ContainsSubstring("byte boundary"));
    CHECK(header_error(entry("\"F4\"", "[4]", "[0,2]"), 2) == "no error");
    CHECK(header_error(entry("\"F32\"", "[9999999999999,9999999999,0]", "[0,0]"), 0) == "no error");

    CHECK_THAT(header_error(R"({"a":{"dtype":"U8","shape":[1]}})", 0),
               HasInOrder("'data_offsets' ", "missing"));
    CHECK_THAT(header_error(R"({"a":{"dtype":"U8","dtype":"U8"}})", 0), ContainsSubstring("twice"));
    CHECK_THAT(header_error(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                            R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                            2),
               ContainsSubstring("twice"));
    CHECK_THAT(header_error(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                            R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                            3),
               HasInOrder("\"b\"", "byte 2", "1"));
    CHECK_THAT(header_error(R"({"__metadata__":{"a":1}})", 0), ContainsSubstring("a number"));
    CHECK_THAT(header_error(R"({"__metadata__":{"a":{}}})", 0), ContainsSubstring("object"));
    CHECK(header_error(R"({"__metadata__":null})", 0) == "no error");
    CHECK_THAT(header_error(R"({"a":[]})", 0), ContainsSubstring("a list"));
    CHECK(header_error(R"({"a":{"x":[{"y":[1,null]}],"dtype":"U8","shape":[],)"
                       R"("data_offsets":[0,1],"z":{"q":-1.5}}})",
                       1) == "no error");
    CHECK_THAT(header_error("{\"a\":{\"x\":" + std::string(10000, '[') + "}}", 0),
               ContainsSubstring("deeper"));
}
