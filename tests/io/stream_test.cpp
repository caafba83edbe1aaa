// SPDX-License-Identifier: Apache-2.0
// Input streams of every kind: whole, in parts, empty, truncated at every byte, corrupt, with
// garbage after the data, from files and from a pipe that delivers single bytes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/log.hpp"
#include "base/rng.hpp"
#include "compress.hpp"
#include "io/file.hpp"
#include "io/stream.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using io::Compression;
using test::caught;
using test::compress;

namespace {

constexpr std::string_view skippable_frame("\x50\x2a\x4d\x18\x04\x00\x00\x00\x01\x02\x03\x04", 12);

void put(const std::string& path, std::string_view content) {
    std::ofstream(path, std::ios::binary) << content;
}

std::string read_all(io::InputStream& stream, size_t step) {
    std::string text;
    std::string part(step, '\0');
    while (true) {
        const i64 n = stream.read(std::as_writable_bytes(std::span(part)));
        text.append(part, 0, static_cast<size_t>(n));
        if (n < static_cast<i64>(step)) break;
    }
    REQUIRE(stream.read(std::as_writable_bytes(std::span(part))) == 0);
    return text;
}

std::string read_path(const std::string& path, size_t step = 1 << 20) {
    return read_all(*io::open_stream(path), step);
}

// Returns words and noise, which compress a little.
std::string sample_text(size_t n_bytes) {
    std::string text;
    for (u64 i = 0; text.size() < n_bytes; ++i) {
        const u32 r = philox(11, i, 0)[0];
        text += r % 3 == 0 ? "the quick brown fox " : std::to_string(r);
        if (r % 7 == 0) text += '\n';
    }
    text.resize(n_bytes);
    return text;
}

const std::string& name_of(Compression kind) {
    static const std::string names[] = {"plain", "gzip", "xz", "zstd"};
    return names[static_cast<int>(kind)];
}

Compression any_kind() {
    return GENERATE(Compression::none, Compression::gzip, Compression::xz, Compression::zstd);
}

Compression compressed_kind() {
    return GENERATE(Compression::gzip, Compression::xz, Compression::zstd);
}

// While the object exists, standard input delivers `content` in parts of `step` bytes.
class PipedInput {
  public:
    PipedInput(std::string content, size_t step) : saved_(::dup(STDIN_FILENO)) {
        int ends[2];
        REQUIRE(::pipe(ends) == 0);
        ::dup2(ends[0], STDIN_FILENO);
        ::close(ends[0]);
        writer_ = std::thread([content = std::move(content), step, out = ends[1]] {
            for (size_t at = 0; at < content.size(); at += step) {
                const size_t n = std::min(step, content.size() - at);
                if (::write(out, content.data() + at, n) < 0) break;
            }
            ::close(out);
        });
    }
    ~PipedInput() {
        writer_.join();
        ::dup2(saved_, STDIN_FILENO);
        ::close(saved_);
    }
    PipedInput(const PipedInput&) = delete;
    PipedInput& operator=(const PipedInput&) = delete;

  private:
    int saved_;
    std::thread writer_;
};

}  // namespace

TEST_CASE("a stream returns the text for any size of the reads") {
    const test::TempDir dir;
    const Compression kind = any_kind();
    const std::string text = sample_text(70'000);
    const std::string content = compress(kind, text);
    put(dir / "f", content);
    for (size_t step : {size_t{1}, size_t{7}, size_t{4096}, text.size(), size_t{1} << 20}) {
        const auto stream = io::open_stream(dir / "f");
        CHECK(io::compression_of(dir / "f") == kind);
        CHECK(stream->compressed_bytes_read() == 0);
        CHECK((read_all(*stream, step) == text));
        CHECK(stream->compressed_bytes_read() == static_cast<i64>(content.size()));
    }
    std::string nothing;
    const auto stream = io::open_stream(dir / "f");
    CHECK(stream->read(std::as_writable_bytes(std::span(nothing))) == 0);
    CHECK((read_all(*stream, 100) == text));
}

TEST_CASE("a text longer than the blocks is returned completely") {
    const test::TempDir dir;
    const Compression kind = any_kind();
    const std::string text = sample_text(5'000'000);
    put(dir / "f", compress(kind, text) + compress(kind, text));
    CHECK((read_path(dir / "f", 3'000'001) == text + text));
}

TEST_CASE("several members, streams or frames read as one") {
    const test::TempDir dir;
    const Compression kind = compressed_kind();
    std::string content, expected;
    for (size_t n : {0, 1, 1000, 0, 0, 77}) {
        content += compress(kind, sample_text(n));
        expected += sample_text(n);
    }
    put(dir / "f", content);
    for (size_t step : {1, 10, 100'000}) CHECK((read_path(dir / "f", step) == expected));
    put(dir / "empty", compress(kind, ""));
    CHECK(read_path(dir / "empty").empty());
}

TEST_CASE("an empty file is a plain, empty stream") {
    const test::TempDir dir;
    put(dir / "f", "");
    CHECK(io::compression_of(dir / "f") == Compression::none);
    CHECK(read_path(dir / "f").empty());
}

TEST_CASE("the content decides the compression, not the name") {
    const test::TempDir dir;
    put(dir / "plain.gz", "{\"text\": \"x\"}\n");
    CHECK(read_path(dir / "plain.gz") == "{\"text\": \"x\"}\n");
    put(dir / "packed.jsonl", test::zstd("x"));
    CHECK(read_path(dir / "packed.jsonl") == "x");
    for (std::string_view start : {"\x1f", "\x1f\x8b", "BZ", "BZh9 is text", "P", "\x28\xb5\x2f"}) {
        put(dir / "short", start);
        CHECK(read_path(dir / "short") == start);
    }
}

TEST_CASE("a stream truncated at any byte: the error names file and position") {
    const test::TempDir dir(test::memory_root());
    const Compression kind = compressed_kind();
    const std::string content = compress(kind, sample_text(300));
    const size_t longest_magic = 6;
    for (size_t n = longest_magic; n < content.size(); ++n) {
        INFO(name_of(kind) << " cut at " << n << " of " << content.size());
        put(dir / "f", content.substr(0, n));
        const auto error = caught([&] { read_path(dir / "f"); });
        REQUIRE(error.code == Exit::failure);
        CHECK(error.says(dir / "f: ", name_of(kind), "truncated", std::to_string(n) + ": "));
    }
    put(dir / "f", content + content.substr(0, content.size() - 1));
    CHECK(caught([&] { read_path(dir / "f", 1); }).says("truncated"));
}

TEST_CASE("a flipped byte is an error or does not matter") {
    const test::TempDir dir(test::memory_root());
    const Compression kind = compressed_kind();
    const std::string text = sample_text(300);
    const std::string content = compress(kind, text);
    for (size_t at = 6; at < content.size(); ++at) {
        INFO(name_of(kind) << " byte " << at << " of " << content.size());
        std::string damaged = content;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
        put(dir / "f", damaged);
        std::string result;
        const auto error = caught([&] { result = read_path(dir / "f"); });
        if (error.threw)
            CHECK(error.says(dir / "f: "));
        else
            CHECK((result == text));
    }
}

TEST_CASE("garbage after the end is an error") {
    const test::TempDir dir;
    const Compression kind = compressed_kind();
    const std::string content = compress(kind, sample_text(1000));
    for (std::string_view garbage : {std::string_view("garbage after it"), std::string_view("g"),
                                     std::string_view("\0\0\0", 3), std::string_view("\x1f")}) {
        if (garbage[0] == '\0' && kind == Compression::gzip) continue;
        put(dir / "f", content + std::string(garbage));
        const auto error = caught([&] { read_path(dir / "f"); });
        CHECK(error.code == Exit::failure);
        CHECK(error.says(dir / "f: "));
    }
    put(dir / "f", content + "garbage after it");
    CHECK(caught([&] { read_path(dir / "f", 10); }).says(dir / "f: ", "garbage"));
}

TEST_CASE("zeros after gzip data are allowed as padding") {
    const test::TempDir dir;
    const std::string path = dir / "f";
    for (const int threads : {1, 3}) {
        const std::string member = threads == 1 ? test::gzip("one\n") : test::bgzf("one\n");
        for (const size_t n : {1U, 2U, 512U, 10'240U, 3'000'000U}) {
            const std::string zeros(n, '\0');
            put(path, member + member + zeros);
            CHECK(read_all(*io::open_stream(path, threads), 100) == "one\none\n");
            for (const std::string& behind : {std::string("x"), member}) {
                put(path, member + zeros + behind);
                const auto error = caught([&] { read_all(*io::open_stream(path, threads), 100); });
                CHECK(error.says(dir / "f: ", "garbage", "gzip"));
            }
        }
    }
}

TEST_CASE("skippable frames and padding between the parts are allowed") {
    const test::TempDir dir;
    const std::string padding(8, '\0');
    put(dir / "xz", test::xz("a") + padding + test::xz("b") + padding);
    CHECK(read_path(dir / "xz") == "ab");
    const std::string skipped(skippable_frame);
    put(dir / "zstd", skipped + test::zstd("a") + skipped + test::zstd("b") + skipped);
    CHECK(io::compression_of(dir / "zstd") == Compression::zstd);
    CHECK(read_path(dir / "zstd") == "ab");
}

namespace {

std::string without_digits(std::string text) {
    std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
    return text;
}

// Checks that several threads return the same text, or the same error, as one thread. The position
// "before byte N" may differ: it depends on the size of the reads.
void check_side_by_side(const std::string& path) {
    std::string want, got;
    const auto one = caught([&] { want = read_path(path); });
    const auto many = caught([&] { got = read_all(*io::open_stream(path, 3), 100'000); });
    CHECK(one.threw == many.threw);
    CHECK(without_digits(one.message) == without_digits(many.message));
    CHECK((want == got));
}

std::string bgzf_file(const std::string& text) {
    std::string content;
    for (size_t at = 0; at < text.size(); at += 60'000)
        content += test::bgzf(text.substr(at, 60'000));
    return content + test::bgzf("");
}

std::string zstd_file(const std::string& text) {
    std::string content(skippable_frame);
    for (size_t at = 0, n = 0; at < text.size(); at += n) {
        n = 1 + at * 7 % 900'000;
        content += test::zstd(text.substr(at, n), at % 3 == 0 ? 20 : 0);
        if (at % 2 == 0) content += test::zstd("");
    }
    return content + std::string(skippable_frame);
}

}  // namespace

TEST_CASE("a BGZF file without its end-of-file block gets a warning") {
    const test::TempDir dir;
    std::vector<std::string> said;
    set_log_sink([&](Severity, std::string_view message) { said.emplace_back(message); });
    const std::string text = sample_text(200'000);
    const std::string whole = bgzf_file(text);
    const std::string cut = whole.substr(0, whole.size() - test::bgzf("").size());
    for (const std::string& content : {whole, whole + std::string(7000, '\0'), whole + cut}) {
        put(dir / "f", content);
        for (const int threads : {1, 3}) read_all(*io::open_stream(dir / "f", threads), 100'000);
    }
    const size_t n_said = said.size();
    put(dir / "g", test::gzip(text).substr(0, 3));
    CHECK(caught([&] { read_path(dir / "g"); }).threw);
    CHECK(said.size() == n_said);  // no warning: the file has an error, and may not be BGZF at all
    CHECK(said.size() == 2);
    CHECK_THAT(said.back(), HasInOrder(dir / "f: ", "BGZF"));
    set_log_sink(nullptr);
}

TEST_CASE(".lzma files are read") {
    const test::TempDir dir;
    const std::string text = sample_text(300'000), content = test::lzma_alone(text);
    put(dir / "f", content);
    for (const int threads : {1, 3})
        CHECK((read_all(*io::open_stream(dir / "f", threads), 70'000) == text));
    put(dir / "f", test::lzma_alone(""));
    CHECK(read_path(dir / "f").empty());
    for (const std::string& bad : {content.substr(0, 20), content.substr(0, content.size() / 2),
                                   content.substr(0, content.size() - 1), content + "garbage"}) {
        put(dir / "f", bad);
        const auto failure = caught([&] { read_path(dir / "f"); });
        CHECK(failure.threw);
        CHECK(failure.says(dir / "f: ", "xz data"));
    }
}

TEST_CASE("units of a file are decompressed in parallel") {
    const test::TempDir dir(test::memory_root());
    const std::string text = sample_text(6'000'000);
    const std::string path = dir / "f";
    for (const std::string& content : {bgzf_file(text), zstd_file(text)}) {
        put(path, content);
        CHECK((read_all(*io::open_stream(path, 4), 1'000'003) == text));
        CHECK((read_all(*io::open_stream(path, 2), 17'000) == text));
        for (const size_t cut : {size_t{1}, size_t{20}, size_t{70'000}, content.size() / 2}) {
            put(path, content.substr(0, content.size() - cut));
            check_side_by_side(path);
        }
        for (const std::string_view behind : {"garbage", "g", "\x1f\x8b\x08"}) {
            put(path, content + std::string(behind));
            check_side_by_side(path);
        }
        for (size_t at = 5; at < content.size(); at += content.size() / 40) {
            std::string damaged = content;
            damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
            put(path, damaged);
            INFO(at);
            check_side_by_side(path);
        }
    }
    // A gzip member, which does not state its size, between BGZF blocks; and a zstd frame that is
    // too large to be held in memory.
    put(path, bgzf_file(text) + test::gzip(text) + bgzf_file("end"));
    check_side_by_side(path);
    const std::string large(size_t{40} << 20, 'x');
    put(path, zstd_file(text) + test::zstd(large) + zstd_file("end"));
    check_side_by_side(path);
    // The stream is destroyed before its end.
    std::vector<std::byte> few(10);
    CHECK(io::open_stream(path, 3)->read(few) == 10);
}

TEST_CASE("zstd windows above the default limit are read") {
    const test::TempDir dir;
    const std::string text = sample_text(200'000);
    put(dir / "f", test::zstd(text, 28));
    CHECK((read_path(dir / "f") == text));
}

TEST_CASE("an xz file that needs too much memory: the error states the need") {
    const test::TempDir dir;
    std::string content = test::xz("x");
    // The block header: its size at offset 12, the LZMA2 filter (the bytes "!", 1 and the
    // dictionary size), and its CRC32 at the end.
    const size_t begin = 12;
    const size_t n = (static_cast<u8>(content[begin]) + 1U) * 4;
    content[content.find("!\x01", begin) + 2] = 40;  // 4 GiB - 1
    const u32 crc = lzma_crc32(reinterpret_cast<const u8*>(content.data()) + begin, n - 4, 0);
    for (size_t i = 0; i < 4; ++i) {
        content[begin + n - 4 + i] = static_cast<char>(crc >> (8 * i));
    }
    put(dir / "f", content);
    const auto error = caught([&] { read_path(dir / "f"); });
    CHECK(error.says("4.30 GB", "2.15 GB"));
}

TEST_CASE("unsupported formats are refused by name") {
    const test::TempDir dir;
    put(dir / "f", "BZh91AY&SY and more");
    const auto error = caught([&] { io::open_stream(dir / "f"); });
    CHECK(error.code == Exit::failure);
    CHECK(error.says(dir / "f: ", "bzip2", "gzip, xz or zstd"));
    put(dir / "f", std::string("PK\x03\x04", 4));
    CHECK(caught([&] { io::open_stream(dir / "f"); }).says("zip"));
}

TEST_CASE("standard input is read, also when it delivers single bytes") {
    const Compression kind = any_kind();
    const std::string text = sample_text(3000);
    for (size_t step : {1, 5, 100'000}) {
        const PipedInput input(compress(kind, text) + compress(kind, text), step);
        const auto stream = io::open_stream("-");
        CHECK((read_all(*stream, 1000) == text + text));
    }
    {
        const PipedInput input("", 1);
        CHECK(read_path("-").empty());
    }
    if (kind == Compression::none) return;
    const PipedInput input(compress(kind, text).substr(0, 100), 1);
    CHECK(caught([] { read_path("-"); }).says("standard input: "));
}

TEST_CASE("content is verified at the end of each unit, not before") {
    const Compression kind = any_kind();
    const std::string first = sample_text(40'000), text = first + sample_text(30'000);
    const std::string content = compress(kind, first) + compress(kind, text.substr(first.size()));
    const auto expected = [&](size_t n_read, bool ended) {
        if (kind == Compression::none || ended) return n_read;
        return n_read > first.size() && kind != Compression::xz ? first.size() : 0;
    };
    const PipedInput input(content, 1000);
    const auto stream = io::open_stream("-");
    std::vector<std::byte> part(7000);
    for (size_t n_read = 0; n_read <= text.size();) {
        const auto n = static_cast<size_t>(stream->read(part));
        const bool ended = n < part.size();
        n_read += n;
        if (n_read == text.size() && !ended) continue;  // the end may be known or not
        CHECK(stream->verified_bytes() == static_cast<i64>(expected(n_read, ended)));
        if (ended) break;
    }
}

TEST_CASE("verified_bytes is the same for any number of threads") {
    const test::TempDir dir(test::memory_root());
    const std::string text = sample_text(6'000'000);
    const std::string large(size_t{40} << 20, 'x');
    for (const std::string& content :
         {bgzf_file(text), zstd_file(text), bgzf_file(text) + test::gzip(text) + bgzf_file("end"),
          zstd_file(text) + test::zstd(large) + zstd_file("end"), test::xz(text), text}) {
        put(dir / "f", content);
        for (const int threads : {1, 3}) {
            const auto stream = io::open_stream(dir / "f", threads);
            struct stat status {};
            REQUIRE(::fstat(stream->descriptor(), &status) == 0);
            CHECK(status.st_size == static_cast<off_t>(content.size()));
            std::vector<std::byte> part(900'000);
            i64 n_read = 0, before = 0;
            for (bool more = true; more;) {
                const i64 n = stream->read(part);
                more = n == static_cast<i64>(part.size());
                n_read += n;
                CHECK(stream->verified_bytes() >= before);
                CHECK(stream->verified_bytes() <= n_read);
                before = stream->verified_bytes();
            }
            CHECK(before == n_read);
            CHECK(stream->compressed_bytes_read() == static_cast<i64>(content.size()));
        }
    }
}

TEST_CASE("corrupt data is never verified") {
    const test::TempDir dir(test::memory_root());
    const Compression kind = compressed_kind();
    const std::string first = sample_text(2'000'000), second = sample_text(3'000'000);
    std::string content = compress(kind, first) + compress(kind, second);
    content[content.size() - content.size() / 4] ^= 1;
    put(dir / "f", content);
    for (const int threads : {1, 3}) {
        const auto stream = io::open_stream(dir / "f", threads);
        std::vector<std::byte> part(1'000'000);
        i64 n_read = 0;
        const auto error = caught([&] {
            while (const i64 n = stream->read(part)) {
                n_read += n;
                CHECK(stream->verified_bytes() <= static_cast<i64>(first.size()));
            }
        });
        CHECK(error.says(dir / "f: "));
        if (kind != Compression::xz && n_read > static_cast<i64>(first.size()))
            CHECK(stream->verified_bytes() == static_cast<i64>(first.size()));
    }
}

TEST_CASE("a missing file and a closed standard input are errors") {
    const test::TempDir dir;
    CHECK(caught([&] {
              io::open_stream(dir / "no");
          }).says(dir / "no: ", "No such file or directory"));
    CHECK(caught([&] { io::open_stream(dir.path()); }).says(dir.path() + ": ", "directory"));
    const int saved = ::dup(STDIN_FILENO);
    ::close(STDIN_FILENO);
    const auto error = caught([&] { io::open_stream("-"); });
    ::dup2(saved, STDIN_FILENO);
    ::close(saved);
    CHECK(error.says("standard input: ", ": Bad file descriptor"));
}
