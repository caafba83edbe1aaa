// SPDX-License-Identifier: Apache-2.0
// Formats: RFC 1952 (gzip), the .xz file format 1.1.0 and .lzma (liblzma), RFC 8878 (zstd). All
// three formats allow concatenation, so the content of a file is the content of all its members,
// streams or frames.
#include "io/decoder.hpp"

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/units.hpp"

namespace lm::io {
namespace {

constexpr size_t decode_bytes = size_t{1} << 20;
constexpr u64 xz_memory_limit = u64{2} << 30;
constexpr int zstd_window_log_limit = 31;

// Base class of the decoders. Counts the content bytes that were read, and the content bytes that
// checksums have verified. Has functions that throw the errors of all decoders, with the position
// in the file.
class SourceStream : public InputStream {
  public:
    SourceStream(ByteSource source, Compression compression)
        : source_(std::move(source)), compression_(compression) {}
    i64 compressed_bytes_read() const override { return source_.consumed(); }
    i64 verified_bytes() const override { return verified_; }
    int descriptor() const override { return source_.fd(); }

    // One call of a decoder returns at most the content of one block of input, so calls are
    // repeated until `out` is full.
    i64 read(std::span<std::byte> out) override {
        size_t filled = 0;
        while (filled < out.size()) {
            const size_t n = read_more(out.subspan(filled));
            if (n == 0) break;
            filled += n;
            n_read_ += static_cast<i64>(n);
        }
        return static_cast<i64>(filled);
    }

  protected:
    // Writes to `out`, which is not empty. Returns the number of written bytes: at least 1, or 0 at
    // the end of the stream.
    virtual size_t read_more(std::span<std::byte> out) = 0;

    // read_more() calls this function when checksums have verified the content up to and including
    // byte `n` of its output.
    void verified(size_t n) { verified_ = n_read_ + static_cast<i64>(n); }

    [[noreturn]] void truncated() const {
        run_error(source_.name(),
                  "the {} data is truncated at byte {}: copy or create the file again", kind(),
                  source_.consumed());
    }
    [[noreturn]] void corrupt(std::string_view why) const {
        run_error(source_.name(), "the {} data is corrupt before byte {}: {}", kind(),
                  source_.consumed(), why);
    }
    [[noreturn]] void garbage() const {
        run_error(
            source_.name(),
            "garbage after the end of the {} data, before byte {}: copy or create the file again",
            kind(), source_.consumed());
    }

    ByteSource source_;

  private:
    std::string_view kind() const {
        switch (compression_) {
            case Compression::gzip:
                return "gzip";
            case Compression::xz:
                return "xz";
            case Compression::zstd:
                return "zstd";
            case Compression::none:
                break;
        }
        return "plain";
    }

    Compression compression_;
    i64 n_read_ = 0;  // content bytes before the current read_more()
    i64 verified_ = 0;
};

// Decoder of uncompressed data. Returns the bytes that peek() has read, then reads directly into
// the caller's buffer.
class PlainStream final : public SourceStream {
  public:
    explicit PlainStream(ByteSource source) : SourceStream(std::move(source), Compression::none) {}

  private:
    size_t read_more(std::span<std::byte> out) override {
        const size_t n = copy_some(out);
        verified(n);
        return n;
    }

    size_t copy_some(std::span<std::byte> out) {
        const std::span<const std::byte> waiting = source_.waiting();
        if (waiting.empty()) return source_.read_some(out);
        const size_t n = std::min(out.size(), waiting.size());
        std::memcpy(out.data(), waiting.data(), n);
        source_.consume(n);
        return n;
    }
};

// Decoder of gzip, RFC 1952. A member is a header, deflate data, CRC-32 and length. inflate()
// checks CRC-32 and length and returns Z_STREAM_END at the end of a member, so only complete
// members are verified. The next member needs inflateReset().
class GzipStream final : public SourceStream {
  public:
    GzipStream(ByteSource source, bool continued)
        : SourceStream(std::move(source), Compression::gzip),
          between_members_(continued),
          any_member_(continued),
          member_begin_(source_.consumed()) {
        constexpr int gzip_only = 16;
        const int result = inflateInit2(&z_, MAX_WBITS + gzip_only);
        LM_CHECK(result == Z_OK, "inflateInit2(): expected Z_OK, got {}", result);
    }
    ~GzipStream() override { inflateEnd(&z_); }
    GzipStream(const GzipStream&) = delete;
    GzipStream& operator=(const GzipStream&) = delete;

  private:
    size_t read_more(std::span<std::byte> out) override {
        while (true) {
            if (between_members_ && any_member_) skip_zeros();
            const std::span<const std::byte> in = source_.next();
            if (in.empty() && between_members_) return 0;
            if (in.empty()) truncated();
            if (const size_t n = inflate_some(in, out); n > 0) return n;
        }
    }

    // Skips zeros after a member, as gzip(1) does, because tapes and disk images fill their last
    // block with zeros. Any other bytes are garbage.
    void skip_zeros() {
        bool any = false;
        for (auto in = source_.next(); !in.empty() && in[0] == std::byte{0}; in = source_.next()) {
            any = true;
            const auto end =
                std::ranges::find_if(in, [](std::byte b) { return b != std::byte{0}; });
            source_.consume(static_cast<size_t>(end - in.begin()));
        }
        if (any && !source_.next().empty()) garbage();
    }

    size_t inflate_some(std::span<const std::byte> in, std::span<std::byte> out) {
        // Cleared before inflate(), because a file that ends after this call ends within a member.
        between_members_ = false;
        z_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
        z_.avail_in = static_cast<uInt>(in.size());
        z_.next_out = reinterpret_cast<Bytef*>(out.data());
        z_.avail_out = static_cast<uInt>(std::min(out.size(), decode_bytes));
        const uInt room = z_.avail_out;
        const int result = inflate(&z_, Z_NO_FLUSH);
        source_.consume(in.size() - z_.avail_in);
        const size_t n = room - z_.avail_out;
        if (result == Z_STREAM_END) {
            verified(n);
            end_member();
        } else if (result != Z_OK &&
                   result != Z_BUF_ERROR) {  // Z_BUF_ERROR: needs more input or output
            fail(result);
        }
        return n;
    }

    void end_member() {
        inflateReset(&z_);
        between_members_ = true;
        any_member_ = true;
        member_begin_ = source_.consumed();
    }

    // An error within the first three bytes (magic and method) after a complete member means that
    // no other member starts there.
    [[noreturn]] void fail(int result) const {
        const bool header = z_.total_out == 0 && source_.consumed() - member_begin_ <= 3;
        if (any_member_ && header && result == Z_DATA_ERROR) garbage();
        if (result == Z_MEM_ERROR)
            run_error(
                source_.name(),
                "not enough memory to decompress: free memory or raise the limit (ulimit -v)");
        corrupt(z_.msg ? z_.msg : "invalid data");
    }

    z_stream z_{};
    bool between_members_;
    bool any_member_;
    i64 member_begin_;  // offset in the file
};

// Decoder of xz. liblzma concatenates streams itself and checks the index at the end, so no content
// is verified before the end.
class XzStream final : public SourceStream {
  public:
    XzStream(ByteSource source, int threads, i64 memory)
        : SourceStream(std::move(source), Compression::xz) {
        lzma_mt options{};
        options.flags = LZMA_CONCATENATED;
        options.threads = static_cast<u32>(threads);
        options.memlimit_threading = static_cast<u64>(memory);
        options.memlimit_stop = xz_memory_limit;
        const auto first = source_.waiting();
        // The threaded decoder does not read .lzma, which starts with 0x5d.
        const bool may_thread = threads > 1 && (first.empty() || first[0] != std::byte{0x5d});
        const lzma_ret result = may_thread
                                    ? lzma_stream_decoder_mt(&lzma_, &options)
                                    : lzma_auto_decoder(&lzma_, xz_memory_limit, LZMA_CONCATENATED);
        LM_CHECK(result == LZMA_OK, "liblzma decoder: expected LZMA_OK, got {}",
                 static_cast<int>(result));
    }
    ~XzStream() override { lzma_end(&lzma_); }
    XzStream(const XzStream&) = delete;
    XzStream& operator=(const XzStream&) = delete;

  private:
    size_t read_more(std::span<std::byte> out) override {
        while (!ended_) {
            const std::span<const std::byte> in = source_.next();
            lzma_.next_in = reinterpret_cast<const u8*>(in.data());
            lzma_.avail_in = in.size();
            lzma_.next_out = reinterpret_cast<u8*>(out.data());
            lzma_.avail_out = out.size();
            // With LZMA_CONCATENATED only LZMA_FINISH lets the decoder end, because more streams
            // could follow.
            const lzma_ret result = lzma_code(&lzma_, in.empty() ? LZMA_FINISH : LZMA_RUN);
            source_.consume(in.size() - lzma_.avail_in);
            ended_ = result == LZMA_STREAM_END;
            if (result != LZMA_OK && !ended_) fail(result);
            const size_t n = out.size() - lzma_.avail_out;
            if (ended_) verified(n);
            if (n > 0) return n;
        }
        return 0;
    }

    [[noreturn]] void fail(lzma_ret result) {
        switch (result) {
            case LZMA_BUF_ERROR:
                truncated();
            case LZMA_DATA_ERROR:
                corrupt("invalid data, or garbage after the end");
            case LZMA_FORMAT_ERROR:
                corrupt("not in xz or .lzma format");
            case LZMA_OPTIONS_ERROR:
                corrupt("options that this version of liblzma does not support");
            case LZMA_MEM_ERROR:
                run_error(
                    source_.name(),
                    "not enough memory to decompress: free memory or raise the limit (ulimit -v)");
            case LZMA_MEMLIMIT_ERROR:
                run_error(source_.name(),
                          "decompression needs {} of memory, more than the limit of {}: compress "
                          "the file with a smaller dictionary",
                          decimal_size(static_cast<i64>(lzma_memusage(&lzma_))),
                          decimal_size(static_cast<i64>(xz_memory_limit)));
            default:
                corrupt("liblzma error " + std::to_string(result));
        }
    }

    lzma_stream lzma_ = LZMA_STREAM_INIT;
    bool ended_ = false;
};

// Decoder of zstd, RFC 8878. ZSTD_decompressStream() returns 0 at the end of a frame, after it has
// checked the content checksum if the frame has one. Any other result is a hint for the size of the
// next input. Skippable frames have no content.
class ZstdStream final : public SourceStream {
  public:
    ZstdStream(ByteSource source, bool continued)
        : SourceStream(std::move(source), Compression::zstd),
          context_(ZSTD_createDCtx(), &ZSTD_freeDCtx),
          any_frame_(continued) {
        if (context_ == nullptr) throw std::bad_alloc();
        // zstd refuses windows above 128 MiB by default (ZSTD_d_windowLogMax).
        ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, zstd_window_log_limit);
    }

  private:
    size_t read_more(std::span<std::byte> out) override {
        while (true) {
            const std::span<const std::byte> in = source_.next();
            if (in.empty() && between_frames_) return 0;
            ZSTD_inBuffer input{in.data(), in.size(), 0};
            ZSTD_outBuffer output{out.data(), out.size(), 0};
            const size_t result = ZSTD_decompressStream(context_.get(), &output, &input);
            source_.consume(input.pos);
            if (ZSTD_isError(result)) fail(result);
            between_frames_ = result == 0;
            any_frame_ = any_frame_ || between_frames_;
            if (between_frames_) verified(output.pos);
            if (output.pos > 0) return output.pos;
            // At the end of the file the decoder may still return buffered content. If it has no
            // more content and the frame is not complete, the frame is truncated.
            if (in.empty() && !between_frames_) truncated();
        }
    }

    [[noreturn]] void fail(size_t result) const {
        const ZSTD_ErrorCode code = ZSTD_getErrorCode(result);
        if (code == ZSTD_error_prefix_unknown && any_frame_) garbage();
        if (code == ZSTD_error_memory_allocation) {
            run_error(
                source_.name(),
                "not enough memory to decompress: free memory or raise the limit (ulimit -v)");
        }
        if (code == ZSTD_error_dictionary_wrong) {
            run_error(source_.name(),
                      "was compressed with a dictionary, which is not supported: decompress it "
                      "with zstd -D DICTIONARY");
        }
        corrupt(ZSTD_getErrorName(result));
    }

    std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context_;
    bool between_frames_ = true;
    bool any_frame_;
};

}  // namespace

std::unique_ptr<InputStream> make_decoder(ByteSource source, Compression compression, int threads,
                                          i64 memory, bool continued) {
    switch (compression) {
        case Compression::gzip:
            return std::make_unique<GzipStream>(std::move(source), continued);
        case Compression::xz:
            return std::make_unique<XzStream>(std::move(source), threads, memory);
        case Compression::zstd:
            return std::make_unique<ZstdStream>(std::move(source), continued);
        case Compression::none:
            break;
    }
    return std::make_unique<PlainStream>(std::move(source));
}

}  // namespace lm::io
