// SPDX-License-Identifier: Apache-2.0
// Formats: RFC 8878, 3.1.1.1 (zstd); the .xz file format 1.1.0, 3.1; .lzma as LZMA SDK's lzma.txt.
#include "io/stream_windows.hpp"

#include <lzma.h>
#include <zstd.h>

#include <algorithm>
#include <cstdlib>

namespace lm::io {
namespace {

u32 byte_at(std::span<const std::byte> bytes, size_t at) {
    return at < bytes.size() ? std::to_integer<u32>(bytes[at]) : 0;
}

u32 number_at(std::span<const std::byte> bytes, size_t at) {
    u32 value = 0;
    for (size_t i = 0; i < 4; ++i) value |= byte_at(bytes, at + i) << (8 * i);
    return value;
}

i64 zstd_window(std::span<const std::byte> bytes) {
    constexpr u32 skippable_magic = 0x184D2A50;
    while (bytes.size() > 8 && (number_at(bytes, 0) & ~15U) == skippable_magic)
        bytes = bytes.subspan(std::min(bytes.size(), 8 + size_t{number_at(bytes, 4)}));
    const bool single_segment = (byte_at(bytes, 4) & 32) != 0;
    if (single_segment) {
        const u64 size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
        return size >= ZSTD_CONTENTSIZE_ERROR ? 0 : static_cast<i64>(size);
    }
    const u32 descriptor = byte_at(bytes, 5);
    const i64 base = i64{1} << (10 + (descriptor >> 3));
    return base + base / 8 * (descriptor & 7);
}

i64 xz_window(std::span<const std::byte> bytes) {
    if (byte_at(bytes, 0) == 0x5d) return number_at(bytes, 1);  // .lzma
    if (bytes.size() <= LZMA_STREAM_HEADER_SIZE) return 0;
    const auto* data = reinterpret_cast<const u8*>(bytes.data());
    lzma_stream_flags flags{};
    if (lzma_stream_header_decode(&flags, data) != LZMA_OK) return 0;
    const u8* header = data + LZMA_STREAM_HEADER_SIZE;
    lzma_filter filters[LZMA_FILTERS_MAX + 1];
    filters[0].id = LZMA_VLI_UNKNOWN;
    lzma_block block{};
    block.filters = filters;
    block.check = flags.check;
    block.header_size = lzma_block_header_size_decode(*header);
    const bool whole = LZMA_STREAM_HEADER_SIZE + size_t{block.header_size} <= bytes.size();
    if (*header == 0 || !whole || lzma_block_header_decode(&block, nullptr, header) != LZMA_OK)
        return 0;
    const u64 needed = lzma_raw_decoder_memusage(filters);
    for (lzma_filter* filter = filters; filter->id != LZMA_VLI_UNKNOWN; ++filter)
        std::free(filter->options);
    return needed == UINT64_MAX ? 0 : static_cast<i64>(needed);
}

}  // namespace

i64 window_of(Compression compression, std::span<const std::byte> bytes) {
    return compression == Compression::zstd ? zstd_window(bytes)
           : compression == Compression::xz ? xz_window(bytes)
                                            : 0;
}

}  // namespace lm::io
