// SPDX-License-Identifier: Apache-2.0
// Compressed test data, made by the libraries themselves: one gzip member, xz stream or zstd frame.
#pragma once

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "io/stream.hpp"

namespace lm::test {

inline std::string gzip(std::string_view text) {
    z_stream z{};
    constexpr int gzip_format = 15 + 16;
    if (deflateInit2(&z, 6, Z_DEFLATED, gzip_format, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        throw std::runtime_error("zlib");
    }
    std::string out(deflateBound(&z, text.size()) + 32, '\0');
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    z.avail_in = static_cast<uInt>(text.size());
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out.size());
    const int result = deflate(&z, Z_FINISH);
    out.resize(z.total_out);
    deflateEnd(&z);
    if (result != Z_STREAM_END) throw std::runtime_error("zlib");
    return out;
}

inline std::string xz(std::string_view text) {
    std::string out(lzma_stream_buffer_bound(text.size()), '\0');
    size_t n = 0;
    if (lzma_easy_buffer_encode(
            1, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(text.data()),
            text.size(), reinterpret_cast<uint8_t*>(out.data()), &n, out.size()) != LZMA_OK) {
        throw std::runtime_error("liblzma");
    }
    out.resize(n);
    return out;
}

// Returns the text as .lzma, the format before xz, which has no checksum.
inline std::string lzma_alone(std::string_view text) {
    lzma_options_lzma options;
    lzma_stream stream = LZMA_STREAM_INIT;
    if (lzma_lzma_preset(&options, 1) || lzma_alone_encoder(&stream, &options) != LZMA_OK)
        throw std::runtime_error("liblzma");
    std::string out(lzma_stream_buffer_bound(text.size()), '\0');
    stream.next_in = reinterpret_cast<const uint8_t*>(text.data());
    stream.avail_in = text.size();
    stream.next_out = reinterpret_cast<uint8_t*>(out.data());
    stream.avail_out = out.size();
    const lzma_ret result = lzma_code(&stream, LZMA_FINISH);
    out.resize(stream.total_out);
    lzma_end(&stream);
    if (result != LZMA_STREAM_END) throw std::runtime_error("liblzma");
    return out;
}

inline std::string zstd(std::string_view text, int window_log = 0) {
    ZSTD_CCtx* context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    // A frame header states a window only when the content size is not known at the start.
    if (window_log > 0) {
        ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
        ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    }
    std::string out(ZSTD_compressBound(text.size()) + 64, '\0');
    ZSTD_inBuffer input{text.data(), text.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    // Two calls: a single call would know the content size at the start.
    size_t left = ZSTD_compressStream2(context, &output, &input, ZSTD_e_continue);
    if (!ZSTD_isError(left)) left = ZSTD_compressStream2(context, &output, &input, ZSTD_e_end);
    ZSTD_freeCCtx(context);
    if (left != 0) throw std::runtime_error("zstd");
    out.resize(output.pos);
    return out;
}

// A BGZF block: a gzip member whose extra field states its size. `text` is at most 60 KiB.
inline std::string bgzf(std::string_view text) {
    const std::string plain = gzip(text);
    constexpr size_t header = 10, extra = 8;
    std::string block = plain.substr(0, header);
    block[3] = 4;  // FEXTRA
    const size_t last = plain.size() + extra - 1;
    block += std::string("\x06\0BC\x02\0", 6);
    block += {static_cast<char>(last & 0xFF), static_cast<char>(last >> 8)};
    return block + plain.substr(header);
}

inline std::string compress(io::Compression kind, std::string_view text) {
    switch (kind) {
        case io::Compression::gzip:
            return gzip(text);
        case io::Compression::xz:
            return xz(text);
        case io::Compression::zstd:
            return zstd(text);
        case io::Compression::none:
            break;
    }
    return std::string(text);
}

}  // namespace lm::test
