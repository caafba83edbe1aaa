// SPDX-License-Identifier: Apache-2.0
#include "io/stream_units.hpp"

#include <libdeflate.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "base/error.hpp"

namespace lm::io {
namespace {

using Found = CompressedUnit::Found;

constexpr size_t most_compressed = size_t{8} << 20;
constexpr size_t most_content = size_t{8} << 20;
constexpr size_t zstd_block_bytes = size_t{128} << 10;
constexpr size_t bgzf_block_bytes = size_t{64} << 10;

// The little-endian number of `n` bytes at `at`.
u32 number(std::span<const std::byte> bytes, size_t at, size_t n) {
    u32 value = 0;
    for (size_t i = 0; i < n; ++i) value |= std::to_integer<u32>(bytes[at + i]) << (8 * i);
    return value;
}

CompressedUnit sized(std::span<const std::byte> bytes, size_t n_compressed, size_t most_bytes) {
    if (n_compressed > most_compressed || most_bytes > most_content) return {Found::other};
    return {n_compressed <= bytes.size() ? Found::whole : Found::cut, n_compressed, most_bytes};
}

// RFC 8878, 3.1.1.1, of frames without a dictionary: magic, descriptor, window, size of the
// content.
constexpr size_t longest_frame_header = 4 + 1 + 1 + 8;

bool is_single_segment(u32 descriptor) {
    return (descriptor & 32) != 0;
}

size_t content_size_bytes(u32 descriptor) {
    constexpr size_t sizes[] = {0, 2, 4, 8};
    const size_t n = sizes[descriptor >> 6];
    return n == 0 && is_single_segment(descriptor) ? 1 : n;
}

size_t frame_header_size(u32 descriptor) {
    return 4 + 1 + (is_single_segment(descriptor) ? 0 : 1) + content_size_bytes(descriptor);
}

// As the header tells it; 0 when it does not.
u64 content_size(std::span<const std::byte> frame, u32 descriptor) {
    const size_t n = content_size_bytes(descriptor);
    const size_t at = frame_header_size(descriptor) - n;
    if (n == 2) return u64{number(frame, at, 2)} + 256;
    const u64 high = n == 8 ? number(frame, at + 4, 4) : 0;
    return high << 32 | number(frame, at, std::min<size_t>(n, 4));
}

CompressedUnit find_frame(std::span<const std::byte> bytes) {
    constexpr u32 frame_magic = 0xFD2FB528, skippable_magic = 0x184D2A50;
    if (bytes.size() < 8) return {Found::cut};
    const u32 magic = number(bytes, 0, 4);
    if ((magic & ~15U) == skippable_magic) return sized(bytes, 8 + size_t{number(bytes, 4, 4)}, 0);
    const u32 descriptor = number(bytes, 4, 1);
    if (magic != frame_magic || (descriptor & 3) != 0) return {Found::other};
    if (bytes.size() < longest_frame_header) return {Found::cut};
    if (content_size(bytes, descriptor) > most_content) return {Found::other};
    size_t at = frame_header_size(descriptor);
    for (size_t n_blocks = 1;; ++n_blocks) {
        if (at > most_compressed) return {Found::other};
        if (at + 3 > bytes.size()) return {Found::cut};
        const u32 block = number(bytes, at, 3);  // last, type, size
        const u32 type = block >> 1 & 3;
        if (type == 3) return {Found::other};
        at += 3 + (type == 1 ? 1 : block >> 3);
        if ((block & 1) == 0) continue;
        const size_t checksum = (descriptor & 4) != 0 ? 4 : 0;
        return sized(bytes, at + checksum, n_blocks * zstd_block_bytes);
    }
}

CompressedUnit find_bgzf_block(std::span<const std::byte> bytes) {
    constexpr size_t fixed_header = 12;
    if (bytes.size() < fixed_header) return {Found::cut};
    if (number(bytes, 0, 4) != 0x04088B1F) return {Found::other};
    const size_t extra_end = fixed_header + number(bytes, 10, 2);
    if (bytes.size() < extra_end) return {Found::cut};
    for (size_t at = fixed_header; at + 4 <= extra_end; at += 4 + number(bytes, at + 2, 2)) {
        const bool is_block_size = number(bytes, at, 4) == ('B' | 'C' << 8 | 2 << 16);
        if (is_block_size && at + 6 <= extra_end)
            return sized(bytes, size_t{number(bytes, at + 4, 2)} + 1, bgzf_block_bytes);
    }
    return {Found::other};
}

i64 decompress_frames(std::span<const std::byte> frames, std::span<std::byte> out) {
    const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                       &ZSTD_freeDCtx);
    LM_CHECK(context != nullptr, "zstd did not start");
    const size_t n =
        ZSTD_decompressDCtx(context.get(), out.data(), out.size(), frames.data(), frames.size());
    return ZSTD_isError(n) ? -1 : static_cast<i64>(n);
}

i64 decompress_members(std::span<const std::byte> members, std::span<std::byte> out) {
    const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)>
        decompressor(libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
    LM_CHECK(decompressor != nullptr, "libdeflate did not start");
    size_t filled = 0;
    while (!members.empty()) {
        const size_t size = find_bgzf_block(members).n_compressed;
        size_t n_in = 0, n_out = 0;
        const libdeflate_result result =
            libdeflate_gzip_decompress_ex(decompressor.get(), members.data(), size,
                                          out.data() + filled, out.size() - filled, &n_in, &n_out);
        if (result != LIBDEFLATE_SUCCESS || n_in != size) return -1;
        filled += n_out;
        members = members.subspan(size);
    }
    return static_cast<i64>(filled);
}

}  // namespace

CompressedUnit find_unit(Compression compression, std::span<const std::byte> bytes) {
    return compression == Compression::zstd   ? find_frame(bytes)
           : compression == Compression::gzip ? find_bgzf_block(bytes)
                                              : CompressedUnit{Found::other};
}

i64 decompress_units(Compression compression, std::span<const std::byte> units,
                     std::span<std::byte> out) {
    return compression == Compression::zstd ? decompress_frames(units, out)
                                            : decompress_members(units, out);
}

}  // namespace lm::io
