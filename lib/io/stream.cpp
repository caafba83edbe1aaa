// SPDX-License-Identifier: Apache-2.0
#include "io/stream.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/byte_source.hpp"
#include "io/checked.hpp"
#include "io/decoder.hpp"
#include "io/file.hpp"
#include "io/inputs.hpp"
#include "io/parallel_stream.hpp"
#include "io/pipe_wait.hpp"

namespace lm::io {
namespace {

Compression compression_at(ByteSource& source) {
    source.peek(longest_magic);
    return detect_compression(source.waiting(), source.name());
}

bool is_regular(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

ByteSource open_source(const std::string& path, int interrupt = -1) {
    if (path != "-") {
        Fd fd = interrupt < 0 ? open_input(path) : open_before_writer(path);
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

using namespace std::string_view_literals;

constexpr int max_unit_threads = 4;  // four threads decompress faster than an encoder reads
// The approximate memory of the units of one thread, compressed and decompressed.
constexpr i64 unit_memory = i64{12} << 20;

// The empty block at the end of every BGZF file (SAM specification, 4.1.2), without the first ten
// bytes of its header.
constexpr std::string_view bgzf_end = "\x06\0\x42\x43\x02\0\x1b\0\x03\0\0\0\0\0\0\0\0\0"sv;

// Returns whether the file ends with `end`, apart from up to 64 KiB of zeros (block padding).
bool ends_with(const std::string& path, std::string_view end) {
    constexpr i64 max_zeros = i64{1} << 16;
    const Fd fd = open_read(path);
    const i64 size = file_size(path);
    const i64 n = std::min(size, max_zeros + static_cast<i64>(end.size()));
    std::string tail(static_cast<size_t>(n), '\0');
    read_exact(fd, path, std::as_writable_bytes(std::span(tail)), size - n);
    const size_t at = tail.rfind(end);
    return at != tail.npos && tail.find_first_not_of('\0', at + end.size()) == tail.npos;
}

}  // namespace

std::unique_ptr<InputStream> open_stream(const std::string& path, int threads, i64 memory,
                                         int interrupt) {
    ByteSource source = open_source(path, interrupt);
    const Compression compression = compression_at(source);
    // A pipe is read without a thread, because a thread that blocks in read() on a silent pipe
    // could not be stopped.
    if (compression == Compression::none || path == "-" || !is_regular(source.fd()))
        return make_decoder(std::move(source), compression, threads, memory, false);
    const CompressedUnit first = find_unit(compression, source.waiting());
    const bool bgzf = compression == Compression::gzip && first.n_compressed > 0;
    if (bgzf && !ends_with(path, bgzf_end))
        warn("{}: has no BGZF end-of-file block: the file may be truncated", path);
    const int unit_threads = static_cast<int>(
        std::min<i64>(std::min(threads, max_unit_threads), memory / unit_memory - 1));
    if (unit_threads > 1 && first.found != CompressedUnit::Found::other) {
        // Decompresses the file from offset `begin` on, at which no complete unit starts.
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
    const Compression compression = compression_at(source);
    constexpr size_t header_bytes =
        size_t{64} << 10;  // enough for pzstd's skippable frame and the next headers
    source.peek(header_bytes);
    return window_of(compression, source.waiting());
}

std::string first_bytes_of(const std::string& path, i64 n) {
    ByteSource source = open_source(path);
    const Compression compression = compression_at(source);
    const auto stream =
        make_decoder(std::move(source), compression, 1, default_decoding_memory, false);
    std::string bytes(static_cast<size_t>(n), '\0');
    bytes.resize(static_cast<size_t>(stream->read(std::as_writable_bytes(std::span(bytes)))));
    return bytes;
}

Compression compression_of(const std::string& path) {
    ByteSource source = open_source(path);
    return compression_at(source);
}

}  // namespace lm::io
