// SPDX-License-Identifier: Apache-2.0
#include "data/jsonl/line_chunks.hpp"

#include <sys/eventfd.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/log.hpp"
#include "base/units.hpp"
#include "io/checked.hpp"

namespace lm::data {
namespace {

// A longer line is an error. Texts have at most 2 GiB, without their escapes.
constexpr size_t longest_line = size_t{4} << 30;
// The buffer of a long line grows by a quarter, within these bounds. A read fills the whole buffer,
// so after a larger growth it would read far beyond the end of the line.
constexpr size_t least_growth = size_t{1} << 20;
constexpr size_t max_growth = size_t{16} << 20;
// fail() prints a note after it has read this number of blocks of 1 MiB; gzip decodes them in 0.3
// s.
constexpr int blocks_before_note = 64;

i64 changed_ns(const struct stat& status) {
    return static_cast<i64>(status.st_mtim.tv_sec) * 1'000'000'000 +
           static_cast<i64>(status.st_mtim.tv_nsec);
}

void refuse_changed(const InputFile& input, int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) io::system_error(input.path, "read its size", errno);
    if (status.st_size == input.size && changed_ns(status) == input.changed_ns) return;
    run_error(input.path,
              "has changed while it was read (it had {} bytes, now {}): run again when no other "
              "program writes to it",
              input.size, static_cast<i64>(status.st_size));
}

io::Fd make_interrupt() {
    io::Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd.valid()) io::system_error("eventfd", "create", errno);
    return fd;
}

}  // namespace

std::vector<InputFile> examine_inputs(const std::vector<std::string>& inputs) {
    std::vector<InputFile> files;
    for (const std::string& path : inputs) {
        struct stat status {};
        const bool regular =
            path != "-" && ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
        if (!regular) {
            files.push_back({path, -1, false, 0});
            continue;
        }
        const bool plain = io::compression_of(path) == io::Compression::none;
        files.push_back({path, static_cast<i64>(status.st_size), plain, changed_ns(status),
                         plain ? 0 : io::window_of(path)});
    }
    return files;
}

std::vector<InputPiece> share_of(std::span<const InputFile> inputs, i64 index, i64 count) {
    i64 total = 0;
    for (const InputFile& input : inputs) {
        LM_CHECK(input.size >= 0, "share_of needs known sizes, got {} for {}", input.size,
                 input.path);
        total += input.size;
    }
    const auto boundary = [&](i64 i) {
        return static_cast<i64>(static_cast<__int128>(total) * i / count);
    };
    const i64 low = boundary(index);
    const i64 high = boundary(index + 1);
    std::vector<InputPiece> pieces;
    i64 start = 0;  // offset of the file in the bytes of all inputs
    for (size_t f = 0; f < inputs.size(); ++f) {
        const InputFile& input = inputs[f];
        const i64 end = start + input.size;
        const i64 from = std::max(low, start);
        const i64 to = std::min(high, end);
        if (!input.divisible) {
            if (start >= low && start < high) pieces.push_back({static_cast<int>(f), 0, -1});
        } else if (from < to) {
            pieces.push_back({static_cast<int>(f), from - start, to == end ? -1 : to - start});
        }
        start = end;
    }
    return pieces;
}

void LineChunk::Free::operator()(char* memory) const {
    std::free(memory);
}

// Uses realloc, which moves the pages of a large block instead of copying them.
void LineChunk::reserve(size_t bytes) {
    if (bytes <= capacity_) return;
    void* larger = std::realloc(buffer_.get(), bytes + padding);
    if (larger == nullptr) throw std::bad_alloc();
    (void)buffer_.release();
    buffer_.reset(static_cast<char*>(larger));
    capacity_ = bytes;
}

void LineChunk::release() {
    size_ = 0;
    if (capacity_ <= usual_) return;
    buffer_.reset();
    capacity_ = 0;
}

ChunkReader::ChunkReader(std::vector<InputFile> inputs, i64 chunk_bytes)
    : inputs_(std::move(inputs)),
      chunk_bytes_(static_cast<size_t>(chunk_bytes)),
      threads_(1),
      interrupt_(make_interrupt()) {
    for (size_t f = 0; f < inputs_.size(); ++f) pieces_.push_back({static_cast<int>(f), 0, -1});
}

ChunkReader::ChunkReader(std::vector<InputFile> inputs, std::vector<InputPiece> pieces,
                         i64 chunk_bytes, ReadPosition start, int threads)
    : inputs_(std::move(inputs)),
      pieces_(std::move(pieces)),
      chunk_bytes_(static_cast<size_t>(chunk_bytes)),
      start_(start),
      threads_(threads),
      interrupt_(make_interrupt()),
      next_piece_(start.piece) {}

bool ChunkReader::open_next() {
    if (next_piece_ >= static_cast<i64>(pieces_.size())) return false;
    const InputPiece& piece = pieces_[static_cast<size_t>(next_piece_)];
    const InputFile& file = inputs_[static_cast<size_t>(piece.file)];
    const bool resumed = next_piece_ == start_.piece && start_.offset >= 0;
    const bool cut = piece.begin > 0 || piece.end >= 0 || (resumed && file.divisible);
    offset_ = resumed ? start_.offset : piece.begin;
    // Does not use stream_ yet, because fail() must not read this stream.
    std::unique_ptr<io::InputStream> stream;
    if (cut) {
        // offset_ is the start of a line only if the byte before it is a line end.
        const bool look_back = !resumed && piece.begin > 0;
        stream_begin_ = offset_ - (look_back ? 1 : 0);
        stream = io::open_plain_stream(file.path, stream_begin_);
        if (look_back) skip_partial_line(*stream);
    } else {
        stream_begin_ = 0;
        stream = io::open_stream(file.path, threads_, decoding_memory_, interrupt_.get());
        if (resumed) skip(*stream, start_.offset);
    }
    stream_ = std::move(stream);
    at_start_ = !resumed;
    ++next_piece_;
    return true;
}

const InputFile& ChunkReader::input() const {
    return inputs_[static_cast<size_t>(pieces_[static_cast<size_t>(next_piece_) - 1].file)];
}

void ChunkReader::close() {
    finished_bytes_ += stream_->compressed_bytes_read();
    if (input().size >= 0) refuse_changed(input(), stream_->descriptor());
    stream_.reset();
}

void ChunkReader::skip(io::InputStream& stream, i64 n) const {
    std::vector<std::byte> scratch(size_t{1} << 20);
    while (n > 0) {
        if (interrupted_) throw io::Interrupted();
        const auto want = static_cast<size_t>(std::min(n, static_cast<i64>(scratch.size())));
        const i64 got = stream.read(std::span(scratch).first(want));
        if (got == 0) return;
        n -= got;
    }
}

// Skips the rest of a line that began before the piece, because that line belongs to the previous
// share.
void ChunkReader::skip_partial_line(io::InputStream& stream) {
    std::string block(size_t{1} << 16, '\0');
    --offset_;
    for (;;) {
        if (interrupted_) throw io::Interrupted();
        const auto got = static_cast<size_t>(stream.read(std::as_writable_bytes(std::span(block))));
        const size_t end = std::string_view(block.data(), got).find('\n');
        if (end != std::string_view::npos) {
            offset_ += static_cast<i64>(end) + 1;
            rest_.assign(block, end + 1, got - end - 1);
            return;
        }
        offset_ += static_cast<i64>(got);
        if (got < block.size()) return;
    }
}

i64 ChunkReader::most_bytes() const {
    i64 bytes = 0;
    for (const InputPiece& piece : pieces_) {
        const InputFile& file = inputs_[static_cast<size_t>(piece.file)];
        if (file.size < 0) return -1;
        const i64 end = piece.end < 0 ? file.size : piece.end;
        bytes += file.divisible ? end - piece.begin : 16 * file.size;
    }
    return bytes;
}

i64 ChunkReader::compressed_bytes_read() const {
    return finished_bytes_ + (stream_ ? stream_->compressed_bytes_read() : 0);
}

void ChunkReader::grow(LineChunk& chunk, size_t bytes) {
    const size_t before = std::max(chunk.capacity_, chunk.usual_);
    if (allow_ && bytes > before) allow_(static_cast<i64>(bytes - before));
    chunk.reserve(bytes);
}

void ChunkReader::interrupt() {
    interrupted_ = true;
    ::eventfd_write(interrupt_.get(), 1);
}

void ChunkReader::fill(LineChunk& chunk) {
    chunk.usual_ = 2 * chunk_bytes_;
    grow(chunk, std::max(chunk_bytes_, rest_.size() + chunk_bytes_ / 4));
    std::memcpy(chunk.buffer_.get(), rest_.data(), rest_.size());
    size_t filled = rest_.size();
    size_t whole = 0;  // bytes up to the end of the last whole line
    rest_.clear();
    for (;;) {
        const std::span<char> room(chunk.buffer_.get() + filled, chunk.capacity_ - filled);
        const auto got = static_cast<size_t>(stream_->read(std::as_writable_bytes(room)));
        const void* end = ::memrchr(room.data(), '\n', got);
        if (end != nullptr)
            whole = static_cast<size_t>(static_cast<const char*>(end) - chunk.buffer_.get()) + 1;
        filled += got;
        if (got < room.size()) {
            close();
            whole = filled;
            break;
        }
        if (whole > 0) break;
        if (filled >= longest_line) {
            run_error(input().path,
                      "the line at byte {} is longer than {}: JSON Lines has one document per line",
                      offset_ + 1, decimal_size(static_cast<i64>(longest_line)));
        }
        grow(chunk, chunk.capacity_ + std::clamp(chunk.capacity_ / 4, least_growth, max_growth));
    }
    rest_.assign(chunk.buffer_.get() + whole, filled - whole);
    chunk.size_ = whole;
}

// Removes the lines that begin at or after the end of the piece, because these lines belong to the
// next share.
void ChunkReader::cut_at_end(LineChunk& chunk) {
    const i64 end = pieces_[static_cast<size_t>(next_piece_) - 1].end;
    if (end < 0 || offset_ + static_cast<i64>(chunk.size_) < end) return;
    const i64 last =
        end - 1 - offset_;  // the piece's last byte in the chunk; negative: before the chunk
    size_t size = 0;
    if (last >= 0) {
        const size_t line_end = chunk.text().find('\n', static_cast<size_t>(last));
        size = line_end == std::string_view::npos ? chunk.size_ : line_end + 1;
    }
    chunk.size_ = size;
    rest_.clear();
    if (stream_) close();
}

bool ChunkReader::next(LineChunk& chunk) {
    try {
        return read_next(chunk);
    } catch (const io::Interrupted&) {
        throw;
    } catch (...) {
        failure_ = std::current_exception();
        throw;
    }
}

// Returns whether a checksum has confirmed all data before `place`. Also returns true when the
// stream that contains `place` is closed.
bool ChunkReader::is_verified(ReadPosition place) const {
    const bool open = stream_ && place.offset >= 0 && place.piece == next_piece_ - 1;
    return !open || stream_begin_ + stream_->verified_bytes() >= place.offset;
}

void ChunkReader::fail(const BadLineError& bad_line, const std::function<void()>& check) {
    eventfd_t interrupted = 0;
    (void)::eventfd_read(interrupt_.get(), &interrupted);
    std::vector<std::byte> scratch(size_t{1} << 20);
    for (int n = 0; !is_verified(bad_line.chunk_end()); ++n) {
        if (failure_) std::rethrow_exception(failure_);
        check();
        if (n == blocks_before_note)
            note(
                "{}: reading the rest of the stream, whose checksum shows whether the line is "
                "corrupt",
                bad_line.what());
        if (stream_->read(scratch) < static_cast<i64>(scratch.size())) close();
    }
    throw bad_line;
}

bool ChunkReader::read_next(LineChunk& chunk) {
    chunk.size_ = 0;
    while (chunk.size_ == 0) {
        if (!stream_ && !open_next()) return false;
        fill(chunk);
        cut_at_end(chunk);
        std::memset(chunk.buffer_.get() + chunk.size_, 0, LineChunk::padding);
        chunk.piece = next_piece_ - 1;
        chunk.file = pieces_[static_cast<size_t>(chunk.piece)].file;
        chunk.first = at_start_;
        chunk.after_others = pieces_[static_cast<size_t>(chunk.piece)].begin > 0;
        chunk.offset = offset_;
        at_start_ = at_start_ && chunk.size_ == 0;
        offset_ += static_cast<i64>(chunk.size_);
        chunk.next = stream_ ? ReadPosition{chunk.piece, offset_} : ReadPosition{next_piece_, -1};
    }
    return true;
}

std::string_view next_line(std::string_view& text) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    return line;
}

bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\r") == line.npos;
}

}  // namespace lm::data
