// SPDX-License-Identifier: Apache-2.0
#include "convert/native_import.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "ckpt/elements.hpp"
#include "ckpt/geometry.hpp"
#include "io/json.hpp"

namespace lm::convert {
namespace {

// Reads parts of one tensor of lm-utils from its blocks.
class SourceBlockReader {
  public:
    // `drift` gets the largest difference between copies.
    SourceBlockReader(const std::vector<SourceBlock>& blocks, i64 cols, DType dtype,
                      SourceReader& reader, Replicas replicas, double& drift)
        : blocks_(blocks),
          cols_(cols),
          dtype_(dtype),
          reader_(reader),
          replicas_(replicas),
          drift_(drift) {}

    // Reads elements [begin, end) in row-major order: the end of a row, whole rows, and the start
    // of a row.
    void read(i64 begin, i64 end, std::byte* out) {
        while (begin < end) {
            const i64 row = begin / cols_;
            const i64 col = begin % cols_;
            const bool whole_rows = col == 0 && end - begin >= cols_;
            const i64 n_rows = whole_rows ? (end - begin) / cols_ : 1;
            const i64 n_cols = whole_rows ? cols_ : std::min(cols_ - col, end - begin);
            read_box(row, row + n_rows, col, col + n_cols, out);
            begin += n_rows * n_cols;
            out += n_rows * n_cols * size_of(dtype_);
        }
    }

  private:
    void read_box(i64 row_begin, i64 row_end, i64 col_begin, i64 col_end, std::byte* out) {
        const i64 width = col_end - col_begin;
        for (const SourceBlock& block : blocks_) {
            const i64 top = std::max(row_begin, block.row);
            const i64 bottom = std::min(row_end, block.row + block.from.rows);
            const i64 left = std::max(col_begin, block.col);
            const i64 right = std::min(col_end, block.col + block.from.cols);
            if (top >= bottom || left >= right) continue;
            const auto part_of = [&](const SourceMatrix& matrix) {
                return matrix.row_range(top - block.row, bottom - block.row)
                    .col_range(left - block.col, right - block.col);
            };
            const i64 offset = (top - row_begin) * width + left - col_begin;
            std::byte* const to = out + offset * size_of(dtype_);
            reader_.read(part_of(block.from), dtype_, to, width);
            if (block.copies.empty()) continue;
            std::vector<SourceMatrix> copies{part_of(block.from)};
            for (const SourceMatrix& copy : block.copies) copies.push_back(part_of(copy));
            compare(copies, to, width);
        }
    }

    // Compares all copies of a matrix with copies[0], whose values `to` already has. If a copy
    // differs and Replicas::mean is requested, writes the mean of the copies to `to`.
    void compare(const std::vector<SourceMatrix>& copies, std::byte* to, i64 stride) {
        const i64 rows = copies[0].rows;
        const i64 cols = copies[0].cols;
        std::vector<float> first(static_cast<size_t>(rows * cols));
        std::vector<float> other(first.size());
        std::vector<double> sum(first.size());
        bool differ = false;
        for (const SourceMatrix& copy : copies) {
            std::vector<float>& values = &copy == copies.data() ? first : other;
            reader_.read(copy, DType::fp32, reinterpret_cast<std::byte*>(values.data()), cols);
            for (size_t i = 0; i < values.size(); ++i) {
                sum[i] += values[i];
                if (values[i] == first[i]) continue;
                differ = true;
                drift_ = std::max(drift_, std::abs(double{values[i]} - double{first[i]}));
            }
        }
        if (!differ || replicas_ != Replicas::mean) return;
        for (size_t i = 0; i < sum.size(); ++i)
            first[i] = static_cast<float>(sum[i] / static_cast<double>(copies.size()));
        for (i64 row = 0; row < rows; ++row) {
            ckpt::convert_elements(first.data() + row * cols, DType::fp32,
                                   to + row * stride * size_of(dtype_), dtype_, cols);
        }
    }

    const std::vector<SourceBlock>& blocks_;
    i64 cols_;
    DType dtype_;
    SourceReader& reader_;
    Replicas replicas_;
    double& drift_;
};

i64 cols_of(const Shape& shape) {
    return shape.rank() == 2 ? shape[1] : 1;
}

// Appends a block. A single row that continues the last block at an even distance becomes a part of
// it: the interleaved order of query, key and value gives a range for each row.
void append(std::vector<SourceBlock>& blocks, SourceBlock block) {
    if (!blocks.empty() && block.from.rows == 1) {
        SourceBlock& last = blocks.back();
        SourceMatrix& rows = last.from;
        const i64 step = rows.rows == 1 ? block.from.start - rows.start : rows.row_stride;
        if (step > 0 && last.copies.empty() && rows.storage == block.from.storage &&
            rows.cols == block.from.cols && last.col == block.col &&
            last.row + rows.rows == block.row &&
            block.from.start == rows.start + rows.rows * step) {
            rows.row_stride = step;
            ++rows.rows;
            return;
        }
    }
    blocks.push_back(std::move(block));
}

}  // namespace

void NativeImport::add(const MappedTensor& map, ckpt::SliceKind kind, const SourceTensor& from) {
    if (from.shape != map.shape()) {
        run_error(from.path(), "tensor {}: expected shape {} by the configuration, got {}",
                  from.name, io::Json(map.shape()).dump(), io::Json(from.shape).dump());
    }
    SourceMatrix matrix = from.matrix();
    if (map.transposed) matrix = matrix.transposed();
    i64 row = 0;
    for (const RowRange& range : map.rows) {
        const i64 n = range.end - range.begin;
        if (!range.tensor.empty()) {
            append(blocks_[{tensors_.index(range.tensor), kind}],
                   {range.begin, map.col_begin, matrix.row_range(row, row + n)});
        }
        row += n;
    }
}

void NativeImport::add_copy(const MappedTensor& map, ckpt::SliceKind kind,
                            const SourceTensor& from) {
    NativeImport own(tensors_.config());
    own.add(map, kind, from);
    for (auto& [key, copies] : own.blocks_) {
        for (SourceBlock& copy : copies) {
            for (SourceBlock& block : blocks_[key]) {
                if (block.row == copy.row && block.col == copy.col)
                    block.copies.push_back(std::move(copy.from));
            }
        }
    }
}

bool NativeImport::has(ckpt::SliceKind kind) const {
    return std::ranges::any_of(blocks_,
                               [&](const auto& item) { return item.first.second == kind; });
}

// Compares the number of elements of the blocks with that of the tensor. A block that overlaps
// another one would leave elements without a source.
void NativeImport::check_complete(const std::string& in) const {
    for (const ckpt::SliceKind kind : ckpt::all_kinds) {
        if (kind != ckpt::SliceKind::weight && !has(kind)) continue;
        for (size_t i = 0; i < tensors_.table().size(); ++i) {
            const spec::TensorSpec& tensor = tensors_.table()[i];
            const auto found = blocks_.find({static_cast<i64>(i), kind});
            i64 n = 0;
            if (found != blocks_.end()) {
                for (const SourceBlock& block : found->second)
                    n += block.from.rows * block.from.cols;
            }
            if (n == tensor.shape.numel()) continue;
            run_error(in, "tensor {} ({}): expected {} elements, got {}: is the model complete?",
                      tensor.name, name_of(kind), tensor.shape.numel(), n);
        }
    }
}

std::string NativeImport::tensor_with_other_masters(DType weights) const {
    constexpr i64 most = 1024;
    SourceReader reader;
    double drift = 0;
    for (size_t i = 0; i < tensors_.table().size(); ++i) {
        const auto weight = blocks_.find({static_cast<i64>(i), ckpt::SliceKind::weight});
        const auto master = blocks_.find({static_cast<i64>(i), ckpt::SliceKind::master});
        if (weight == blocks_.end() || master == blocks_.end()) continue;
        const spec::TensorSpec& tensor = tensors_.table()[i];
        const i64 n = std::min(tensor.shape.numel(), most);
        std::array<std::vector<std::byte>, 2> values;
        for (const auto& [blocks, out] : {std::pair{&weight->second, values.data()},
                                          std::pair{&master->second, values.data() + 1}}) {
            out->resize(static_cast<size_t>(n * size_of(weights)));
            SourceBlockReader(*blocks, cols_of(tensor.shape), weights, reader, Replicas::rank0,
                              drift)
                .read(0, n, out->data());
        }
        if (values[0] != values[1]) return tensor.name;
    }
    return {};
}

std::vector<ckpt::Piece> NativeImport::pieces(const ConversionRequest& request, DType weights,
                                              ConversionReport& report,
                                              std::map<Key, double>& drift) const {
    const Replicas replicas = request.replicas.value_or(Replicas::rank0);
    const auto reader = std::make_shared<SourceReader>();
    std::vector<ckpt::Piece> pieces;
    for (const auto& [key, blocks] : blocks_) {
        const auto& [index, kind] = key;
        const Shape& shape = tensors_.table()[static_cast<size_t>(index)].shape;
        const DType dtype = kind == ckpt::SliceKind::weight ? weights : DType::fp32;
        const ckpt::Region all = ckpt::whole(shape);
        ckpt::Piece piece{.tensor = index,
                          .kind = kind,
                          .dtype = dtype,
                          .box = all.box,
                          .flat_begin = 0,
                          .flat_end = all.flat_end};
        piece.read = [&blocks = blocks, reader, dtype, cols = cols_of(shape), &request, &report,
                      replicas, &largest = drift[key]](std::span<std::byte> to, i64 offset) {
            const i64 begin = offset / size_of(dtype);
            const auto n_bytes = static_cast<i64>(to.size());
            SourceBlockReader(blocks, cols, dtype, *reader, replicas, largest)
                .read(begin, begin + n_bytes / size_of(dtype), to.data());
            report.n_bytes += n_bytes;
            if (request.progress) request.progress(report.n_bytes);
        };
        pieces.push_back(std::move(piece));
    }
    return pieces;
}

ImportVerification NativeImport::verify(const ConversionRequest& request, DType weights) const {
    check_complete(request.in);
    constexpr i64 most = i64{16} << 20;
    ImportVerification result;
    ConversionReport report;
    std::map<Key, double> drift;
    std::vector<std::byte> band;
    for (const ckpt::Piece& piece : pieces(request, weights, report, drift)) {
        const i64 n_bytes = piece.flat_end * size_of(piece.dtype);
        i64 n_bad = 0;
        for (i64 at = 0; at < n_bytes; at += most) {
            band.resize(static_cast<size_t>(std::min(most, n_bytes - at)));
            piece.read(band, at);
            n_bad += ckpt::count_non_finite(band, piece.dtype);
        }
        ++result.n_tensors;
        result.n_bytes += n_bytes;
        const std::string name =
            fmt::format("tensor {} ({})", tensors_.table()[static_cast<size_t>(piece.tensor)].name,
                        name_of(piece.kind));
        if (n_bad > 0) {
            result.problems.push_back(fmt::format("{}: {} numbers are not finite", name, n_bad));
        }
        if (const double largest = drift[{piece.tensor, piece.kind}]; largest > 0) {
            result.problems.push_back(
                fmt::format("{}: the copies of the tensor ranks differ by up to {:.2e}: see "
                            "lm-ckpt repair",
                            name, largest));
        }
    }
    return result;
}

ConversionReport NativeImport::write(const ConversionRequest& request, ckpt::SaveInfo info) const {
    check_complete(request.in);
    ConversionReport report;
    report.n_tensors = static_cast<i64>(tensors_.table().size());
    report.end_of_document = info.tokenizer.end_of_document;
    info.model = tensors_.config();
    info.command_line = request.command_line;
    info.state["converted_from"] = request.in;
    io::AtomicDirectory out = make_output(request.out, {request.in}, request.force);
    std::map<Key, double> drift;
    ckpt::save({out.path(), 0}, info, pieces(request, info.weights, report, drift));
    for (const auto& [key, largest] : drift) {
        if (largest == 0 || !request.drifted) continue;
        request.drifted(tensors_.table()[static_cast<size_t>(key.first)].name, name_of(key.second),
                        largest);
    }
    if (request.check) request.check(out.path());
    out.commit();
    return report;
}

}  // namespace lm::convert
