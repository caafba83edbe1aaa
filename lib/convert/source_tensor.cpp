// SPDX-License-Identifier: Apache-2.0
#include "convert/source_tensor.hpp"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "ckpt/format/elements.hpp"
#include "io/file.hpp"

namespace lm::convert {

namespace {

// Works in blocks of 32 x 32, which stay in the L1 cache.
template <typename T>
void transpose_elements(const T* from, i64 stride, i64 rows, i64 cols, T* to) {
    constexpr i64 block = 32;
    for (i64 row0 = 0; row0 < rows; row0 += block) {
        for (i64 col0 = 0; col0 < cols; col0 += block) {
            for (i64 col = col0; col < std::min(col0 + block, cols); ++col) {
                for (i64 row = row0; row < std::min(row0 + block, rows); ++row) {
                    to[col * rows + row] = from[row * stride + col];
                }
            }
        }
    }
}

}  // namespace

void transpose(const std::byte* from, i64 stride, i64 rows, i64 cols, i64 size, std::byte* to) {
    LM_CHECK(size == 2 || size == 4 || size == 8, "expected elements of 2, 4 or 8 bytes, got {}",
             size);
    if (size == 8) {
        transpose_elements(reinterpret_cast<const u64*>(from), stride, rows, cols,
                           reinterpret_cast<u64*>(to));
    } else if (size == 4) {
        transpose_elements(reinterpret_cast<const u32*>(from), stride, rows, cols,
                           reinterpret_cast<u32*>(to));
    } else {
        transpose_elements(reinterpret_cast<const u16*>(from), stride, rows, cols,
                           reinterpret_cast<u16*>(to));
    }
}

namespace {

constexpr i64 band_bytes = i64{16} << 20;

}  // namespace

i64 Storage::numel() const {
    i64 n = 0;
    for (const Extent& extent : extents) n += extent.n;
    return n;
}

SourceMatrix SourceMatrix::row_range(i64 begin, i64 end) const {
    LM_CHECK(0 <= begin && begin <= end && end <= rows,
             "expected rows within [0, {}), got [{}, {})", rows, begin, end);
    SourceMatrix part = *this;
    part.start += begin * row_stride;
    part.rows = end - begin;
    return part;
}

SourceMatrix SourceMatrix::col_range(i64 begin, i64 end) const {
    return transposed().row_range(begin, end).transposed();
}

SourceMatrix SourceMatrix::transposed() const {
    return {storage, start, cols, rows, col_stride, row_stride};
}

SourceMatrix SourceTensor::matrix() const {
    LM_CHECK(shape.size() == 1 || shape.size() == 2, "{}: expected 1 or 2 dimensions, got {}", name,
             shape.size());
    if (shape.size() == 1) return {storage, start, shape[0], 1, strides[0], 1};
    return {storage, start, shape[0], shape[1], strides[0], strides[1]};
}

i64 numel(std::span<const i64> shape) {
    return std::accumulate(shape.begin(), shape.end(), i64{1}, checked_mul);
}

std::vector<i64> contiguous_strides(std::span<const i64> shape) {
    std::vector<i64> strides(shape.size());
    i64 stride = 1;
    for (size_t dim = shape.size(); dim-- > 0;) {
        strides[dim] = stride;
        stride *= shape[dim];
    }
    return strides;
}

void verify(const std::string& path, RecordCheck& record) {
    if (record.crc == 0) return;
    const std::lock_guard lock(record.mutex);
    if (record.done) return;
    const io::Fd fd = io::open_read(path);
    std::vector<std::byte> bytes(static_cast<size_t>(std::min(record.size, band_bytes)));
    u32 crc = 0;
    for (i64 at = 0; at < record.size; at += band_bytes) {
        const auto part =
            std::span(bytes).first(static_cast<size_t>(std::min(band_bytes, record.size - at)));
        io::read_exact(fd, path, part, record.offset + at);
        crc = libdeflate_crc32(crc, part.data(), part.size());
    }
    if (crc != record.crc) {
        run_error(path, "corrupt: the CRC of {} bytes at {} is {:08x}, expected {:08x}",
                  record.size, record.offset, crc, record.crc);
    }
    record.done = true;
}

void read_storage(const Storage& storage, i64 begin, i64 n, std::byte* out) {
    const i64 size = size_of(storage.dtype);
    for (const Extent& extent : storage.extents) {
        if (n > 0 && begin < extent.n) {
            const i64 part = std::min(n, extent.n - begin);
            if (extent.check) verify(extent.path, *extent.check);
            const io::Fd fd = io::open_read(extent.path);
            io::read_exact(fd, extent.path, {out, static_cast<size_t>(part * size)},
                           extent.offset + begin * size);
            out += part * size;
            begin += part;
            n -= part;
        }
        begin -= extent.n;
    }
    LM_CHECK(n == 0,
             "expected a range within a storage of {} elements, got one that exceeds it by {}",
             storage.numel(), n);
}

// Copies the matrix from memory, where element `first` of the storage is at `base`.
void SourceReader::gather(const SourceMatrix& from, const std::byte* base, i64 first, DType dtype,
                          std::byte* out, i64 out_stride) {
    const DType stored = from.storage->dtype;
    const i64 size = size_of(stored);
    const std::byte* at = base + (from.start - first) * size;
    i64 row_bytes = from.row_stride * size;
    if (from.col_stride != 1 && from.cols != 1) {
        rows_.resize(static_cast<size_t>(from.rows * from.cols * size));
        if (from.row_stride == 1) {
            transpose(at, from.col_stride, from.cols, from.rows, size, rows_.data());
        } else {
            std::byte* to = rows_.data();
            for (i64 row = 0; row < from.rows; ++row) {
                for (i64 col = 0; col < from.cols; ++col, to += size) {
                    std::memcpy(to, at + (row * from.row_stride + col * from.col_stride) * size,
                                static_cast<size_t>(size));
                }
            }
        }
        at = rows_.data();
        row_bytes = from.cols * size;
    }
    if (row_bytes == from.cols * size && out_stride == from.cols) {
        ckpt::convert_elements(at, stored, out, dtype, from.rows * from.cols);
        return;
    }
    for (i64 row = 0; row < from.rows; ++row) {
        ckpt::convert_elements(at + row * row_bytes, stored,
                               out + row * out_stride * size_of(dtype), dtype, from.cols);
    }
}

// Reads a matrix a band of rows at a time. Used when the rows are near each other in the storage.
void SourceReader::read_near(const SourceMatrix& from, DType dtype, std::byte* out,
                             i64 out_stride) {
    const i64 row_span = (from.cols - 1) * from.col_stride + 1;
    const i64 size = size_of(from.storage->dtype);
    const i64 rows_at_once =
        std::max<i64>(1, band_bytes / (size * std::max<i64>(row_span, from.row_stride)));
    for (i64 row = 0; row < from.rows; row += rows_at_once) {
        const SourceMatrix part = from.row_range(row, std::min(row + rows_at_once, from.rows));
        const i64 n = (part.rows - 1) * part.row_stride + row_span;
        band_.resize(static_cast<size_t>(n * size));
        read_storage(*part.storage, part.start, n, band_.data());
        gather(part, band_.data(), part.start, dtype, out + row * out_stride * size_of(dtype),
               out_stride);
    }
}

void SourceReader::read(const SourceMatrix& from, DType dtype, std::byte* out, i64 out_stride) {
    if (from.rows == 0 || from.cols == 0) return;
    const DType stored = from.storage->dtype;
    const bool dense =
        from.cols == 1 ? from.row_stride == 1 || from.rows == 1
                       : from.col_stride == 1 && (from.row_stride == from.cols || from.rows == 1);
    if (dense && stored == dtype && out_stride == from.cols) {
        return read_storage(*from.storage, from.start, from.rows * from.cols, out);
    }
    constexpr i64 far = 4;
    const i64 row_span = (from.cols - 1) * from.col_stride + 1;
    const i64 span = (from.rows - 1) * from.row_stride + row_span;
    const bool small = span * size_of(stored) <= band_bytes / far;
    if (small || (row_span <= far * from.cols && from.row_stride <= far * row_span)) {
        read_near(from, dtype, out, out_stride);
        return;
    }
    constexpr i64 part_bytes = i64{4} << 20;
    const i64 size = size_of(stored);
    const auto all = whole_->get(from.storage, from.storage->numel() * size, part_bytes,
                                 [&](i64 begin, std::span<std::byte> part) {
                                     read_storage(*from.storage, begin / size,
                                                  std::ssize(part) / size, part.data());
                                 });
    gather(from, all.get(), 0, dtype, out, out_stride);
}

void SourceReaders::with_reader(const std::function<void(SourceReader&)>& body) {
    std::unique_ptr<SourceReader> reader;
    {
        const std::lock_guard lock(mutex_);
        if (!idle_.empty()) {
            reader = std::move(idle_.back());
            idle_.pop_back();
        }
    }
    if (!reader) reader = std::make_unique<SourceReader>(whole_);
    body(*reader);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(reader));
}

}  // namespace lm::convert
