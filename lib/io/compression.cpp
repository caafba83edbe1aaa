// SPDX-License-Identifier: Apache-2.0
#include "io/compression.hpp"

#include <libdeflate.h>
#include <lzma.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "base/error.hpp"

namespace lm::io {
namespace {

using Found = CompressedUnit::Found;
using namespace std::string_view_literals;

struct Magic {
    std::string_view bytes;  // '?' matches any byte
    Compression compression;
    std::string_view unsupported;  // the name of an unsupported format
};

constexpr std::array<Magic, 9> magics = {{
    {"\x1f\x8b\x08"sv, Compression::gzip, ""},
    {"\xfd"
     "7zXZ\0"sv,
     Compression::xz, ""},
    {"\x5d\0\0"sv, Compression::xz, ""},  // .lzma, the format before xz
    {"\x28\xb5\x2f\xfd"sv, Compression::zstd, ""},
    {"?\x2a\x4d\x18"sv, Compression::zstd, ""},  // a skippable frame, as pzstd writes it first
    {"BZh?1AY&SY"sv, Compression::none, "bzip2"},
    {"\x04\x22\x4d\x18"sv, Compression::none, "lz4"},
    {"PK\x03\x04"sv, Compression::none, "zip"},
    {"7z\xbc\xaf\x27\x1c"sv, Compression::none, "7z"},
}};

bool matches(std::span<const std::byte> bytes, std::string_view magic) {
    if (bytes.size() < magic.size()) return false;
    for (size_t i = 0; i < magic.size(); ++i) {
        if (magic[i] != '?' && static_cast<char>(bytes[i]) != magic[i]) return false;
    }
    return true;
}

constexpr size_t max_compressed = size_t{8} << 20;
constexpr size_t max_content = size_t{8} << 20;
constexpr size_t zstd_block_bytes = size_t{128} << 10;  // Block_Maximum_Size, RFC 8878, 3.1.1.2.4
constexpr size_t bgzf_block_bytes = size_t{64} << 10;   // SAM specification, 4.1
constexpr u32 zstd_magic = 0xFD2FB528;
constexpr u32 zstd_skippable_magic = 0x184D2A50;  // the low 4 bits are free: RFC 8878, 3.1.2

// Returns the little-endian number of `n` bytes at `at`; bytes after the end count as 0.
u32 number_at(std::span<const std::byte> bytes, size_t at, size_t n = 4) {
    u32 value = 0;
    for (size_t i = 0; i < n && at + i < bytes.size(); ++i) {
        value |= std::to_integer<u32>(bytes[at + i]) << (8 * i);
    }
    return value;
}

bool is_skippable(u32 magic) {
    return (magic & ~15U) == zstd_skippable_magic;
}

// ---- zstd frame headers: RFC 8878, 3.1.1.1 ----

// The bytes of magic, descriptor, window and content size of a frame without a dictionary.
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

// Returns the content size that the frame header states; 0 when the header states none.
u64 content_size(std::span<const std::byte> frame, u32 descriptor) {
    const size_t n = content_size_bytes(descriptor);
    const size_t at = frame_header_size(descriptor) - n;
    if (n == 2) return u64{number_at(frame, at, 2)} + 256;  // the two-byte form is biased by 256
    const u64 high = n == 8 ? number_at(frame, at + 4) : 0;
    return high << 32 | number_at(frame, at, std::min<size_t>(n, 4));
}

i64 zstd_window(std::span<const std::byte> bytes) {
    while (bytes.size() > 8 && is_skippable(number_at(bytes, 0)))
        bytes = bytes.subspan(std::min(bytes.size(), 8 + size_t{number_at(bytes, 4)}));
    if (is_single_segment(number_at(bytes, 4, 1))) {  // the window is as large as the content
        const u64 size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
        return size >= ZSTD_CONTENTSIZE_ERROR ? 0 : static_cast<i64>(size);
    }
    const u32 descriptor = number_at(bytes, 5, 1);  // exponent and mantissa: 3.1.1.1.2
    const i64 base = i64{1} << (10 + (descriptor >> 3));
    return base + base / 8 * (descriptor & 7);
}

// Returns the size of the dictionary. Follows the .xz file format 1.1.0, sections 2.1.1 (stream
// header) and 3.1 (block header).
i64 xz_window(std::span<const std::byte> bytes) {
    if (number_at(bytes, 0, 1) == 0x5d) return number_at(bytes, 1);  // .lzma
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

// ---- Units ----

CompressedUnit unit_of(std::span<const std::byte> bytes, size_t n_compressed, size_t content) {
    if (n_compressed > max_compressed || content > max_content) return {Found::other};
    return {n_compressed <= bytes.size() ? Found::whole : Found::cut, n_compressed, content};
}

// Walks the block headers, because a frame does not state its compressed size (RFC 8878, 3.1.1.2).
CompressedUnit find_frame(std::span<const std::byte> bytes) {
    if (bytes.size() < 8) return {Found::cut};
    const u32 magic = number_at(bytes, 0);
    if (is_skippable(magic)) return unit_of(bytes, 8 + size_t{number_at(bytes, 4)}, 0);
    const u32 descriptor = number_at(bytes, 4, 1);
    const bool has_dictionary = (descriptor & 3) != 0;
    if (magic != zstd_magic || has_dictionary) return {Found::other};
    if (bytes.size() < longest_frame_header) return {Found::cut};
    if (content_size(bytes, descriptor) > max_content) return {Found::other};
    size_t at = frame_header_size(descriptor);
    for (size_t n_blocks = 1;; ++n_blocks) {
        if (at > max_compressed) return {Found::other};
        if (at + 3 > bytes.size()) return {Found::cut};
        const u32 block = number_at(bytes, at, 3);  // bit 0: last; bits 1 and 2: type; then size
        const u32 type = block >> 1 & 3;
        if (type == 3) return {Found::other};            // reserved
        at += 3 + (type == 1 ? 1 : size_t{block >> 3});  // type 1: one byte, repeated
        if ((block & 1) == 0) continue;
        const size_t checksum = (descriptor & 4) != 0 ? 4 : 0;
        return unit_of(bytes, at + checksum, n_blocks * zstd_block_bytes);
    }
}

// Finds a gzip member with the extra subfield "BC" of length 2, which holds the size of the member
// minus 1 (SAM specification, 4.1).
CompressedUnit find_bgzf_block(std::span<const std::byte> bytes) {
    constexpr size_t fixed_header = 12;
    constexpr u32 gzip_with_extra_field = 0x04088B1F;  // magic, deflate, FLG.FEXTRA: RFC 1952, 2.3
    if (bytes.size() < fixed_header) return {Found::cut};
    if (number_at(bytes, 0) != gzip_with_extra_field) return {Found::other};
    const size_t extra_end = fixed_header + number_at(bytes, 10, 2);
    if (bytes.size() < extra_end) return {Found::cut};
    for (size_t at = fixed_header; at + 4 <= extra_end; at += 4 + number_at(bytes, at + 2, 2)) {
        const bool is_block_size = number_at(bytes, at) == ('B' | 'C' << 8 | 2 << 16);
        if (is_block_size && at + 6 <= extra_end)
            return unit_of(bytes, size_t{number_at(bytes, at + 4, 2)} + 1, bgzf_block_bytes);
    }
    return {Found::other};
}

i64 decompress_frames(std::span<const std::byte> frames, std::span<std::byte> out) {
    const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                       &ZSTD_freeDCtx);
    if (context == nullptr) throw std::bad_alloc();
    const size_t n =
        ZSTD_decompressDCtx(context.get(), out.data(), out.size(), frames.data(), frames.size());
    return ZSTD_isError(n) ? -1 : static_cast<i64>(n);
}

i64 decompress_members(std::span<const std::byte> members, std::span<std::byte> out) {
    const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)>
        decompressor(libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
    if (decompressor == nullptr) throw std::bad_alloc();
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

Compression detect_compression(std::span<const std::byte> bytes, std::string_view file) {
    for (const Magic& magic : magics) {
        if (!matches(bytes, magic.bytes)) continue;
        if (magic.unsupported.empty()) return magic.compression;
        run_error(file, "{} files are not supported: use gzip, xz or zstd", magic.unsupported);
    }
    return Compression::none;
}

i64 window_of(Compression compression, std::span<const std::byte> bytes) {
    return compression == Compression::zstd ? zstd_window(bytes)
           : compression == Compression::xz ? xz_window(bytes)
                                            : 0;
}

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
