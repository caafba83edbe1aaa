// SPDX-License-Identifier: Apache-2.0
#include "convert/native_export.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "ckpt/elements.hpp"

namespace lm::convert {
namespace {

constexpr i64 band_bytes = i64{16} << 20;

// Computes to[col * rows + row] = from[row * stride + col] for `cols` columns, in blocks of 32 x 32
// that stay in the L1 cache.
template <typename T>
void transpose(const T* from, i64 stride, i64 rows, i64 cols, T* to) {
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

// Reads the rows of `range`, with the columns of `tensor`, to `to`. Writes zeros for padding rows.
void NativeExport::load(const RowRange& range, const MappedTensor& tensor, std::byte* to) const {
    const i64 n = (range.end - range.begin) * tensor.n_cols();
    if (range.tensor.empty()) {
        std::memset(to, 0, static_cast<size_t>(n * size_of(dtype_)));
        return;
    }
    spec::Box box;
    if (tensor.rank == 1) {
        box = {{range.begin}, {range.end}};
    } else {
        box = {{range.begin, tensor.col_begin}, {range.end, tensor.col_end}};
    }
    checkpoint_.load(range.tensor, kind_,
                     {.box = box, .flat_begin = 0, .flat_end = n, .dtype = dtype_, .data = to});
}

// Stored values are copied unchanged, even infinite ones; a conversion must not create infinities.
void NativeExport::check_finite(const std::string& tensor, std::span<const std::byte> bytes) const {
    if (kind_ == ckpt::SliceKind::weight || ckpt::count_non_finite(bytes, dtype_) == 0) return;
    run_error(checkpoint_.path(),
              "tensor {} has numbers that are not finite or exceed the range of {}: choose another "
              "--dtype",
              tensor, name_of(dtype_));
}

void NativeExport::write_in_bands(const MappedTensor& tensor, const Sink& sink) {
    const i64 row_bytes = tensor.n_cols() * size_of(dtype_);
    const i64 most = std::max<i64>(1, band_bytes / std::max<i64>(row_bytes, 1));
    for (const RowRange& range : tensor.rows) {
        for (i64 row = range.begin; row < range.end; row += most) {
            const RowRange band{range.tensor, row, std::min(row + most, range.end)};
            band_.resize(static_cast<size_t>((band.end - band.begin) * row_bytes));
            load(band, tensor, band_.data());
            check_finite(tensor.name, band_);
            sink(band_);
        }
    }
}

void NativeExport::write_transposed(const MappedTensor& tensor, const Sink& sink) {
    const i64 size = size_of(dtype_);
    const i64 rows = tensor.n_rows();
    const i64 cols = tensor.n_cols();
    whole_.resize(static_cast<size_t>(rows * cols * size));
    i64 row = 0;
    for (const RowRange& range : tensor.rows) {
        load(range, tensor, whole_.data() + row * cols * size);
        row += range.end - range.begin;
    }
    check_finite(tensor.name, whole_);
    const i64 most = std::max<i64>(1, band_bytes / (rows * size));
    for (i64 col = 0; col < cols; col += most) {
        const i64 n = std::min(most, cols - col);
        band_.resize(static_cast<size_t>(rows * n * size));
        if (size == 4) {
            transpose(reinterpret_cast<const u32*>(whole_.data()) + col, cols, rows, n,
                      reinterpret_cast<u32*>(band_.data()));
        } else {
            transpose(reinterpret_cast<const u16*>(whole_.data()) + col, cols, rows, n,
                      reinterpret_cast<u16*>(band_.data()));
        }
        sink(band_);
    }
}

void NativeExport::write(const MappedTensor& tensor, const Sink& sink) {
    if (tensor.transposed) {
        write_transposed(tensor, sink);
    } else {
        write_in_bands(tensor, sink);
    }
}

}  // namespace lm::convert
