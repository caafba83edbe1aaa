// SPDX-License-Identifier: Apache-2.0
#include "io/stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/checked.hpp"
#include "io/decoder.hpp"
#include "io/file.hpp"
#include "io/inputs.hpp"
#include "io/parallel_stream.hpp"
#include "io/stream_units.hpp"
#include "io/stream_windows.hpp"

namespace lm::io {
namespace {

struct Magic {
    std::string_view bytes;  // '?' stands for any byte
    Compression compression;
    std::string_view unsupported;  // the name of a format that is refused
};

using namespace std::string_view_literals;

constexpr std::array<Magic, 9> magics = {{
    {"\x1f\x8b\x08"sv, Compression::gzip, ""},
    {"\xfd"
     "7zXZ\0"sv,
     Compression::xz, ""},
    {"\x5d\0\0"sv, Compression::xz, ""},  // .lzma, the format before xz
    {"\x28\xb5\x2f\xfd"sv, Compression::zstd, ""},
    {"?\x2a\x4d\x18"sv, Compression::zstd, ""},  // a skippable frame, as pzstd writes first
    {"BZh?1AY&SY"sv, Compression::none, "bzip2"},
    {"\x04\x22\x4d\x18"sv, Compression::none, "lz4"},
    {"PK\x03\x04"sv, Compression::none, "zip"},
    {"7z\xbc\xaf\x27\x1c"sv, Compression::none, "7z"},
}};

constexpr size_t longest_magic = 10;

bool matches(std::span<const std::byte> bytes, std::string_view magic) {
    if (bytes.size() < magic.size()) return false;
    for (size_t i = 0; i < magic.size(); ++i) {
        if (magic[i] != '?' && static_cast<char>(bytes[i]) != magic[i]) return false;
    }
    return true;
}

Compression recognise(ByteSource& source) {
    source.peek(longest_magic);
    for (const Magic& magic : magics) {
        if (!matches(source.waiting(), magic.bytes)) continue;
        if (magic.unsupported.empty()) return magic.compression;
        run_error(source.name(), "{} files are not supported: use gzip, xz or zstd",
                  magic.unsupported);
    }
    return Compression::none;
}

bool is_regular(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

ByteSource open_source(const std::string& path, int interrupt = -1) {
    if (path != "-") {
        Fd fd = open_read(path);
        if (is_regular(fd.get())) interrupt = -1;
        return {std::move(fd), path, 0, interrupt};
    }
    Fd fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) system_error(input_name(path), "read", errno);
    return {std::move(fd), input_name(path), 0, interrupt};
}

ByteSource source_at(const std::string& path, i64 begin) {
    if (begin == 0) return open_source(path);
    Fd fd = open_read(path);
    if (::lseek(fd.get(), begin, SEEK_SET) != begin) system_error(path, "read", errno);
    return {std::move(fd), path, begin};
}

constexpr int most_unit_threads = 4;        // each outruns more than one encoder
constexpr i64 unit_memory = i64{12} << 20;  // of one block, as it is and decompressed

// The empty block that ends every BGZF file (SAM specification, 4.1.2), behind the first ten bytes
// of its header.
constexpr std::string_view bgzf_end = "\x06\0\x42\x43\x02\0\x1b\0\x03\0\0\0\0\0\0\0\0\0"sv;

// Whether the file ends with `end`, but for zeros that fill up its last block.
bool ends_with(const std::string& path, std::string_view end) {
    constexpr i64 most_zeros = i64{1} << 16;
    const Fd fd = open_read(path);
    const i64 size = file_size(path);
    const i64 n = std::min(size, most_zeros + static_cast<i64>(end.size()));
    std::string tail(static_cast<size_t>(n), '\0');
    read_exact(fd, path, std::as_writable_bytes(std::span(tail)), size - n);
    const size_t at = tail.rfind(end);
    return at != tail.npos && tail.find_first_not_of('\0', at + end.size()) == tail.npos;
}

}  // namespace

std::unique_ptr<InputStream> open_stream(const std::string& path, int threads, i64 memory,
                                         int interrupt) {
    ByteSource source = open_source(path, interrupt);
    const Compression compression = recognise(source);
    // A pipe may fall silent: a thread that reads it could not be stopped.
    if (compression == Compression::none || path == "-" || !is_regular(source.fd()))
        return make_decoder(std::move(source), compression, threads, memory, false);
    const CompressedUnit first = find_unit(compression, source.waiting());
    const bool bgzf = compression == Compression::gzip && first.n_compressed > 0;
    if (bgzf && !ends_with(path, bgzf_end))
        warn("{}: has no end-of-file block, as bgzip writes it: it may have been cut short", path);
    const int unit_threads = static_cast<int>(
        std::min<i64>(std::min(threads, most_unit_threads), memory / unit_memory - 1));
    if (unit_threads > 1 && first.found != CompressedUnit::Found::other) {
        const auto serial = [path, compression, memory](i64 begin) {
            return read_ahead(
                make_decoder(source_at(path, begin), compression, 1, memory, begin > 0));
        };
        return open_units(path, compression, unit_threads, serial);
    }
    return read_ahead(make_decoder(std::move(source), compression, threads, memory, false));
}

std::unique_ptr<InputStream> open_plain_stream(const std::string& path, i64 begin) {
    return make_decoder(source_at(path, begin), Compression::none, 1, 0, false);
}

i64 window_of(const std::string& path) {
    ByteSource source = open_source(path);
    const Compression compression = recognise(source);
    constexpr size_t enough = size_t{64} << 10;  // for pzstd's frame before the first, a header
    source.peek(enough);
    return window_of(compression, source.waiting());
}

std::string beginning_of(const std::string& path, i64 most) {
    ByteSource source = open_source(path);
    const Compression compression = recognise(source);
    const auto stream =
        make_decoder(std::move(source), compression, 1, usual_decoding_memory, false);
    std::string bytes(static_cast<size_t>(most), '\0');
    bytes.resize(static_cast<size_t>(stream->read(std::as_writable_bytes(std::span(bytes)))));
    return bytes;
}

Compression compression_of(const std::string& path) {
    ByteSource source = open_source(path);
    return recognise(source);
}

}  // namespace lm::io
