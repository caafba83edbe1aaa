// SPDX-License-Identifier: Apache-2.0
#include "convert/native_import.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "base/error.hpp"
#include "ckpt/format/elements.hpp"
#include "ckpt/format/geometry.hpp"
#include "io/block_file.hpp"
#include "io/json.hpp"

namespace lm::convert {
namespace {

constexpr i64 compared_at_once = i64{1} << 20;  // elements

// Reads parts of one tensor of lm-utils from the source blocks of the tensor.
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
    // of a row; each of the three may be empty.
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
            const i64 most = std::max<i64>(1, compared_at_once / (right - left));
            for (i64 row = 0; row < bottom - top; row += most) {
                std::vector<SourceMatrix> band;
                for (const SourceMatrix& copy : copies)
                    band.push_back(copy.row_range(row, std::min(row + most, bottom - top)));
                compare(band, to + row * width * size_of(dtype_), width);
            }
        }
    }

    // Compares all copies of a matrix with copies[0], whose values are already in `to`. If a copy
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

// Appends a block. If the block is a single row that continues the rows of the last block with the
// same row stride, extends the last block instead, because the interleaved order of query, key and
// value would otherwise give one block for each row.
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
        run_error(from.path(), "tensor {}: expected shape {} from the configuration, got {}",
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
            const auto found = blocks_.find(key);
            if (found == blocks_.end()) continue;
            for (SourceBlock& block : found->second) {
                if (block.row != copy.row || block.col != copy.col) continue;
                if (block.from.rows != copy.from.rows || block.from.cols != copy.from.cols) {
                    run_error(from.path(),
                              "tensor {}: expected a copy of {} rows and {} columns, got {} and {}",
                              from.name, block.from.rows, block.from.cols, copy.from.rows,
                              copy.from.cols);
                }
                block.copies.push_back(std::move(copy.from));
            }
        }
    }
}

bool NativeImport::has(ckpt::SliceKind kind) const {
    return std::ranges::any_of(blocks_,
                               [&](const auto& item) { return item.first.second == kind; });
}

// Checks that the blocks of each tensor have as many elements as the tensor. Does not detect an
// overlap of blocks that hides a gap of the same size.
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
            run_error(in, "tensor {} ({}) has {} of {} elements: copy all files of the model",
                      tensor.name, name_of(kind), n, tensor.shape.numel());
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

std::vector<ckpt::Piece> NativeImport::pieces(Reading& reading, DType weights) const {
    std::vector<ckpt::Piece> pieces;
    for (const auto& entry : blocks_) {
        const auto& key = entry.first;
        const auto& blocks = entry.second;
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
        piece.concurrent = true;
        reading.n_total += all.flat_end * size_of(dtype);
        piece.read = [&reading, &key, &blocks, dtype, cols = cols_of(shape)](
                         std::span<std::byte> to, i64 offset) {
            const Replicas replicas = reading.request.replicas.value_or(Replicas::rank0);
            const i64 begin = offset / size_of(dtype);
            const auto n_bytes = static_cast<i64>(to.size());
            double drift = 0;
            reading.readers.with_reader([&](SourceReader& reader) {
                SourceBlockReader(blocks, cols, dtype, reader, replicas, drift)
                    .read(begin, begin + n_bytes / size_of(dtype), to.data());
            });
            const std::lock_guard lock(reading.mutex);
            double& largest = reading.drift[key];
            largest = std::max(largest, drift);
            reading.n_bytes += n_bytes;
            if (reading.request.progress) {
                reading.request.progress(reading.n_bytes, reading.n_total);
            }
        };
        pieces.push_back(std::move(piece));
    }
    return pieces;
}

ImportVerification NativeImport::verify(const ConversionRequest& request, DType weights) const {
    check_complete(request.in);
    Reading reading{request};
    const std::vector<ckpt::Piece> all = pieces(reading, weights);
    std::vector<std::pair<size_t, i64>> bands;  // index of a piece, first byte in it
    for (size_t i = 0; i < all.size(); ++i) {
        const i64 n_bytes = all[i].flat_end * size_of(all[i].dtype);
        for (i64 at = 0; at < n_bytes; at += io::block_bytes) bands.emplace_back(i, at);
    }
    std::vector<std::atomic<i64>> n_bad(all.size());
    io::for_each_block(std::ssize(bands), io::blocks_in_flight,
                       [&](i64 i, io::AlignedBlock& block) {
                           const auto& [at_piece, at] = bands[static_cast<size_t>(i)];
                           const ckpt::Piece& piece = all[at_piece];
                           const i64 n_bytes = piece.flat_end * size_of(piece.dtype);
                           const auto band = block.first(std::min(io::block_bytes, n_bytes - at));
                           piece.read(band, at);
                           n_bad[at_piece] += ckpt::count_non_finite(band, piece.dtype);
                       });
    ImportVerification result{.n_tensors = std::ssize(all), .n_bytes = reading.n_bytes};
    for (size_t i = 0; i < all.size(); ++i) {
        const ckpt::Piece& piece = all[i];
        const std::string name =
            fmt::format("tensor {} ({})", tensors_.table()[static_cast<size_t>(piece.tensor)].name,
                        name_of(piece.kind));
        if (n_bad[i] > 0) {
            result.problems.push_back(
                fmt::format("{}: number of values that are not finite: {}", name, n_bad[i].load()));
        }
        if (const double largest = reading.drift[{piece.tensor, piece.kind}]; largest > 0) {
            result.problems.push_back(
                fmt::format("{}: the copies of the ranks differ by up to {:.2e}: see lm-ckpt "
                            "repair",
                            name, largest));
        }
    }
    return result;
}

void NativeImport::load(const std::string& tensor, ckpt::SliceKind kind, DType dtype, i64 begin,
                        i64 end, std::byte* out, SourceReaders& readers) const {
    const i64 index = tensors_.index(tensor);
    auto found = blocks_.find({index, kind});
    if (found == blocks_.end()) found = blocks_.find({index, ckpt::SliceKind::weight});
    double drift = 0;
    readers.with_reader([&](SourceReader& reader) {
        SourceBlockReader(found->second, cols_of(tensors_.at(tensor).shape), dtype, reader,
                          Replicas::rank0, drift)
            .read(begin, end, out);
    });
}

ConversionReport NativeImport::write(const ConversionRequest& request, ckpt::SaveInfo info) const {
    check_complete(request.in);
    ConversionReport report;
    report.n_tensors = static_cast<i64>(tensors_.table().size());
    report.end_of_document = info.tokenizer.end_of_document;
    info.model = tensors_.config();
    info.command_line = request.command_line;
    io::Json state = io::parse_json(info.state, request.in);
    state["converted_from"] = request.in;
    info.state = io::json_line(io::OrderedJson(state));
    io::AtomicDirectory out = make_output(request.out, {request.in}, request.force);
    Reading reading{request};
    ckpt::save({out.path(), 0}, info, pieces(reading, info.weights));
    report.n_bytes = reading.n_bytes;
    for (const auto& [key, largest] : reading.drift) {
        if (largest == 0 || !request.drifted) continue;
        request.drifted(tensors_.table()[static_cast<size_t>(key.first)].name, name_of(key.second),
                        largest);
    }
    if (request.check) request.check(out.path());
    out.commit();
    return report;
}

namespace {

class ImportedTensors final : public ckpt::TensorSource {
  public:
    explicit ImportedTensors(ImportedModel model) : model_(std::move(model)) {
        for (const spec::TensorSpec& tensor : names().table()) {
            tensors_.push_back({tensor.name, tensor.shape, model_.weights});
        }
    }

    const std::string& path() const override { return model_.path; }
    const spec::ModelConfig& model() const override { return names().config(); }
    i64 iteration() const override { return model_.iteration; }
    const std::vector<ckpt::TensorInfo>& tensors() const override { return tensors_; }
    const ckpt::TensorInfo* find(std::string_view tensor) const override {
        const std::string name(tensor);
        return names().find(name) ? &tensors_[static_cast<size_t>(names().index(name))] : nullptr;
    }
    bool has(ckpt::SliceKind kind) const override { return model_.import.has(kind); }
    void load(const std::string& tensor, ckpt::SliceKind kind,
              const ckpt::LoadTarget& target) const override {
        const Shape& shape = find(tensor)->shape;
        LM_CHECK(target.box.shape().numel() == shape.numel(),
                 "{}: expected the box of the whole tensor {}, got {}", tensor, shape.str(),
                 target.box.shape().str());
        auto* const out = static_cast<std::byte*>(target.data);
        const auto load_as = [&](DType dtype, std::byte* to) {
            model_.import.load(tensor, kind, dtype, target.flat_begin, target.flat_end, to,
                               readers_);
        };
        const DType stored = kind == ckpt::SliceKind::weight ? model_.weights : DType::fp32;
        if (!model_.rounds || stored == target.dtype) return load_as(target.dtype, out);
        const i64 n = target.flat_end - target.flat_begin;
        std::vector<std::byte> elements(static_cast<size_t>(n * size_of(stored)));
        load_as(stored, elements.data());
        ckpt::convert_elements(elements.data(), stored, out, target.dtype, n);
    }

  private:
    const ModelTensors& names() const { return model_.import.tensors(); }

    ImportedModel model_;
    std::vector<ckpt::TensorInfo> tensors_;
    mutable SourceReaders readers_;
};

}  // namespace

std::unique_ptr<ckpt::TensorSource> open_tensors(ImportedModel model) {
    model.import.check_complete(model.path);
    return std::make_unique<ImportedTensors>(std::move(model));
}

}  // namespace lm::convert
