// SPDX-License-Identifier: Apache-2.0
// JSON Lines: the parser accepts and refuses what Python's json.loads does, and reports the same
// byte for an error; lines that two chunks share.
#include "data/jsonl/line_parser.hpp"

#include <unistd.h>

#include "io/atomic.hpp"
#include "io/compress.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace std::string_view_literals;
using namespace lm::data;

namespace {

// Returns the bytes that this process has read from files and pipes.
i64 n_bytes_read() {
    const std::string text = io::read_file("/proc/self/io");
    const std::string key = "rchar: ";
    REQUIRE(text.starts_with(key));
    return std::stoll(text.substr(key.size()));
}

std::string padded(const std::string& line) {
    return line + std::string(LineChunk::padding, '\0');
}

std::string text_of(const std::string& line, InvalidText bad = InvalidText::refuse) {
    LineParser parser({"text"}, bad);
    const std::string buffer = padded(line);
    try {
        const auto values = parser.parse(std::string_view(buffer).substr(0, line.size()));
        if (!values[0].is_list) return std::string(values[0].text);
        std::string joined;
        for (const auto sentence : values[0].sentences) joined += std::string(sentence) + "|";
        return joined;
    } catch (const LineError& error) {
        return "ERROR " + std::to_string(error.byte) + " " + error.reason;
    }
}

}  // namespace

TEST_CASE("lines that json.loads accepts are parsed") {
    CHECK(text_of(R"({"text": "a"})") == "a");
    CHECK(text_of(" {\"text\"\t:\"a\" } \r") == "a");
    CHECK(text_of(R"({"x":[1,{"text":"no"}],"text":"yes","y":null})") == "yes");
    CHECK(text_of(R"({"text":"first","text":"last"})") == "last");
    CHECK(text_of(R"({"te\u0078t":"escaped key"})") == "escaped key");
    CHECK(text_of(R"({"a":NaN,"b":-Infinity,"c":123456789012345678901234567890,"text":"a"})") ==
          "a");
    CHECK(text_of(R"({"text":"\ud83d\ude00\n\/\u00e9"})") == "\U0001F600\n/\u00E9");
    CHECK(text_of(R"({"text":["a","","b"]})") == "a||b|");
    CHECK(text_of(R"({"text":"\u0000"})") == std::string(1, '\0'));
}

TEST_CASE("lines that json.loads refuses are errors with their byte") {
    CHECK_THAT(text_of(""), HasInOrder("ERROR 1 ", "empty"));
    CHECK_THAT(text_of("[1]"), HasInOrder("ERROR 1 ", "array", "(jq -c '.[]' FILE "));
    CHECK_THAT(text_of("PAR1\x15"), HasInOrder("ERROR 1 ", "Parquet file: "));
    CHECK_THAT(text_of("\x1f\x8b\x08\xff"), HasInOrder("ERROR 1 ", "compressed data: "));
    CHECK_THAT(text_of("id,text"), HasInOrder("ERROR 1 ", "{\"text\": \"...\"}", "CSV"));
    CHECK_THAT(text_of(R"({"text":"a"} x)"), HasInOrder("ERROR 14 ", "end of the line"));
    CHECK(text_of(R"({"text":"a"}{"text":"b"})").starts_with("ERROR 13 "));
    CHECK(text_of(R"({"text":"a",})").starts_with("ERROR 13 "));
    CHECK_THAT(text_of(R"({"text":"a)"), HasInOrder("ERROR 11 ", "ends"));
    CHECK_THAT(text_of("{\"text\":\"a\tb\"}"), HasInOrder("ERROR 11 ", "control character"));
    CHECK(text_of(R"({"text":"\x"})").starts_with("ERROR 11 "));
    CHECK(text_of(R"({"text":"\u12"})").starts_with("ERROR 14 "));
    CHECK(text_of(R"({"text":"a","n":01})").starts_with("ERROR 18 "));
    CHECK(text_of(R"({"text":"a","n":1.})").starts_with("ERROR 19 "));
    CHECK(text_of(R"({"text":"a","n":nul})").starts_with("ERROR 17 "));
    CHECK_THAT(text_of(R"({"text":null})"), HasInOrder("ERROR 9 'text' ", "null"));
    CHECK_THAT(text_of(R"({"text":["a",1]})"), HasInOrder("ERROR 9 'text' ", "array"));
    CHECK_THAT(text_of(R"({"title":"a"})"), HasInOrder("ERROR 1 ", "no key 'text'"));
    CHECK_THAT(text_of("{\"text\":\"a\xC3\"}"), HasInOrder("ERROR 11 ", "UTF-8"));
    CHECK_THAT(text_of(R"({"text":"a\ud800b"})"), HasInOrder("ERROR 11 ", "\\ud800 "));
    // Only the values of the wanted keys must be text.
    CHECK(text_of(R"({"o":"\ud800","text":"a"})") == "a");
    CHECK(text_of(R"({"o":{"\udc00":["\ud800",1]},"\ud800":5,"text":"a"})") == "a");
    CHECK(text_of(R"({"text":"\ud800","text":"a"})") == "a");  // the last one wins
    CHECK_THAT(text_of(R"({"text":"a","text":"b\uD800"})"), HasInOrder("ERROR 22 ", "\\uD800 "));
    CHECK_THAT(text_of(R"({"text":["a","\ud800"]})"), HasInOrder("ERROR 15 ", "\\ud800"));
    CHECK_THAT(text_of(R"({"o":"\ud800","text":"\ud8})"), HasInOrder("ERROR 27 ", "\\u "));
    CHECK_THAT(text_of("{\"text\":" + std::string(3000, '[') + "}"),
               HasInOrder("ERROR ", "deeply"));
}

TEST_CASE("line ends and encodings of other systems") {
    CHECK(text_of("\xEF\xBB\xBF{\"text\":\"a\"}\r") == "a");  // a byte order mark
    CHECK_THAT(text_of("\xEF\xBB\xBF{\"text\":5}"), HasInOrder("ERROR 12 'text' ", "number"));
    CHECK_THAT(text_of("{\"text\":\"a\"}\r{\"text\":\"b\"}\r"),
               HasInOrder("ERROR 14 ", "carriage returns"));
    for (const std::string_view line :
         {"\xFF\xFE{\0\"\0t\0"sv, "\xFE\xFF\0{\0\"\0t"sv, "{\0\"\0t\0"sv, "\0{\0\"\0t"sv}) {
        for (const InvalidText rule : {InvalidText::refuse, InvalidText::replace})
            CHECK_THAT(text_of(std::string(line), rule), HasInOrder("ERROR 1 ", "UTF-16: "));
    }
    for (const std::string_view line : {"\xFF\xFE\0\0{\0\0\0"sv, "\0\0\xFE\xFF\0\0\0{"sv,
                                        "{\0\0\0\"\0\0\0"sv, "\0\0\0{\0\0\0\""sv})
        CHECK_THAT(text_of(std::string(line)), HasInOrder("ERROR 1 ", "UTF-32: "));
    CHECK_THAT(text_of(std::string(20, '\0')), HasInOrder("ERROR 1 ", "{\"text\": \"...\"}"));
}

TEST_CASE("broken characters are replaced on request") {
    CHECK(text_of("{\"text\":\"a\xC3\"}", InvalidText::replace) == "a\uFFFD");
    CHECK(text_of(R"({"text":"a\ud800b\udc00\ud83d\u0041"})", InvalidText::replace) ==
          "a\uFFFDb\uFFFD\uFFFDA");
    LineParser parser({"text"}, InvalidText::replace);
    const std::string line = R"({"o":"\ud800","text":"\ud800","text":"a"})";
    const std::string buffer = padded(line);
    CHECK(parser.parse(std::string_view(buffer).substr(0, line.size()))[0].text == "a");
    CHECK(!parser.replaced());
    CHECK(text_of(R"({"text":"a" x})", InvalidText::replace).starts_with("ERROR 13 "));
}

TEST_CASE("a file that changed after it was examined is an error") {
    const test::TempDir scratch;
    const std::string path = scratch / "a.jsonl";
    const auto read_after = [&](const std::string& content, int piece_end) {
        io::write_file(path, "{}\n{}\n", io::Overwrite::yes);
        const std::vector<InputFile> inputs = examine_inputs({path});
        if (!content.empty()) io::write_file(path, content, io::Overwrite::yes);
        ChunkReader reader(inputs, {{0, 0, piece_end}}, 1000, {}, 1);
        LineChunk chunk;
        i64 n = 0;
        while (reader.next(chunk)) n += static_cast<i64>(chunk.text().size());
        return n;
    };
    CHECK(read_after("", -1) == 6);
    CHECK(read_after("", 3) == 3);
    for (const int piece_end : {-1, 3}) {
        CHECK_THROWS_WITH(read_after("{}\n", piece_end), HasInOrder("changed", "6 bytes", "3"));
        CHECK_THROWS_WITH(read_after("{}\n{}\n{}\n", piece_end), HasInOrder("changed", "9"));
    }
}

TEST_CASE("the checksum of a compressed unit distinguishes a bad line from corrupt data") {
    const test::TempDir scratch;
    const std::string path = scratch / "a.jsonl.gz";
    std::string lines;
    while (lines.size() < 5'000'000) lines += std::to_string(lines.size() * 7919) + "\n";
    const std::string member = test::gzip(lines);
    std::string flipped = member;
    flipped[member.size() - 6] ^= 1;  // a byte of the checksum
    // Returns the error for a bad line in chunk 1, and the number of blocks that were read for it.
    const auto message = [&](const std::string& content, int* n_checks) {
        io::write_file(path, content, io::Overwrite::yes);
        ChunkReader reader(examine_inputs({path}), 1'000'000);
        LineChunk chunk, later;
        REQUIRE((reader.next(chunk) && reader.next(chunk)));
        const BadLineError bad(chunk, "here", "bad");
        try {
            while (later.next.offset < 3'000'000 && reader.next(later)) continue;
            reader.fail(bad, [&] { ++*n_checks; });
        } catch (const Error& error) {
            return std::string(error.what());
        }
    };
    int n_checks = 0;
    CHECK(message(member, &n_checks) == "here: bad");
    CHECK(n_checks >= 1);
    CHECK_THAT(message(flipped, &n_checks), ContainsSubstring("corrupt"));
    CHECK_THAT(message(member.substr(0, member.size() - 9), &n_checks), ContainsSubstring("trunc"));
    std::string rest;  // must not be read
    for (int i = 0; i < 5; ++i) rest += member;
    n_checks = 0;
    CHECK(message(member + rest + flipped, &n_checks) == "here: bad");
    CHECK(n_checks <= 5);
}

TEST_CASE("a resumed reader returns the rest, and of plain files reads nothing else") {
    const test::TempDir scratch;
    std::string lines;
    while (lines.size() < 20'000'000) lines += std::to_string(lines.size() * 7919) + "\n";
    io::write_file(scratch / "plain", lines, io::Overwrite::no);
    io::write_file(scratch / "gzip", test::gzip(lines), io::Overwrite::no);
    const i64 half = static_cast<i64>(lines.find('\n', lines.size() / 2)) + 1;
    for (const auto* name : {"plain", "gzip"}) {
        INFO(name);
        for (const i64 offset : {i64{0}, half, std::ssize(lines)}) {
            const auto inputs = examine_inputs({scratch / name});
            ChunkReader reader(inputs, {{0, 0, -1}}, 1'000'000, {0, offset}, 1);
            LineChunk chunk;
            std::string got;
            const i64 before = n_bytes_read();
            while (reader.next(chunk)) {
                CHECK_FALSE(chunk.first);
                CHECK(chunk.offset == offset + std::ssize(got));
                got += chunk.text();
            }
            CHECK((got == lines.substr(static_cast<size_t>(offset))));
            if (name == "plain"sv) CHECK(n_bytes_read() - before < std::ssize(got) + 3'000'000);
            CHECK(reader.compressed_bytes_read() == inputs[0].size);
        }
    }
}

TEST_CASE("a reader that skips to its start can be interrupted") {
    const test::TempDir scratch;
    std::string lines;
    while (lines.size() < 5'000'000) lines += std::to_string(lines.size() * 7919) + "\n";
    io::write_file(scratch / "a.gz", test::gzip(lines), io::Overwrite::no);
    io::write_file(scratch / "long", std::string(2'000'000, 'x') + "\nx\n", io::Overwrite::no);
    LineChunk chunk;
    ChunkReader packed(examine_inputs({scratch / "a.gz"}), {{0, 0, -1}}, 1'000'000, {0, 4'000'000},
                       1);
    packed.interrupt();
    CHECK_THROWS_AS(packed.next(chunk), io::Interrupted);
    ChunkReader plain(examine_inputs({scratch / "long"}), {{0, 1'000, -1}}, 1'000'000, {}, 1);
    plain.interrupt();
    CHECK_THROWS_AS(plain.next(chunk), io::Interrupted);
    // The reader has no open stream, so fail() reads nothing.
    chunk.next = {0, 3'000'000};
    CHECK_THROWS_WITH(plain.fail(BadLineError(chunk, "here", "bad"), [] {}), "here: bad");
}

TEST_CASE("chunks of any size have whole lines, in order") {
    const std::string dir = "/tmp/lm-jsonl-test." + std::to_string(::getpid());
    io::make_directories(dir);
    std::string want;
    std::vector<std::string> files;
    for (int f = 0; f < 3; ++f) {
        std::string content;
        for (int i = 0; i < 200; ++i) {
            content +=
                std::string(static_cast<size_t>(i * 7 % 311), static_cast<char>('a' + i % 26)) +
                "\n";
        }
        if (f == 1) content += "no newline at the end";
        if (f == 2) content.clear();
        files.push_back(dir + "/" + std::to_string(f));
        io::write_file(files.back(), content, io::Overwrite::yes);
        want += content;
    }
    for (const i64 chunk_bytes : {1, 7, 64, 1000, 1'000'000}) {
        ChunkReader reader(examine_inputs(files), chunk_bytes);
        LineChunk chunk;
        std::string got;
        int n_first = 0;
        while (reader.next(chunk)) {
            got += chunk.text();
            n_first += chunk.first;
            CHECK((chunk.text().ends_with('\n') || chunk.text().ends_with("the end")));
        }
        CHECK(got == want);
        CHECK(n_first == 2);
    }
    io::remove_tree(dir);
}
