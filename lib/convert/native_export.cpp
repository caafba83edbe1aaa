// SPDX-License-Identifier: Apache-2.0
#include "convert/native_export.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "convert/conversion.hpp"
#include "convert/source_tensor.hpp"
#include "io/ordered_blocks.hpp"

namespace lm::convert {
namespace {

// Rows [begin, end) of a tensor in the other format. If the tensor is transposed, these are columns
// of `tensor->map`, else rows.
struct Chunk {
    const ExportedTensor* tensor = nullptr;
    i64 begin = 0;
    i64 end = 0;
    i64 n_bytes = 0;
};

std::vector<Chunk> chunks_of(std::span<const ExportedTensor> tensors) {
    std::vector<Chunk> chunks;
    for (const ExportedTensor& tensor : tensors) {
        const bool transposed = tensor.map.transposed;
        const i64 n = transposed ? tensor.map.n_cols() : tensor.map.n_rows();
        const i64 width = transposed ? tensor.map.n_rows() : tensor.map.n_cols();
        const i64 row_bytes = width * size_of(tensor.dtype);
        LM_CHECK(row_bytes <= io::block_bytes, "{}: expected rows of at most {} bytes, got {}",
                 tensor.map.name, io::block_bytes, row_bytes);
        if (row_bytes == 0) continue;
        const i64 most = io::block_bytes / row_bytes;
        for (i64 begin = 0; begin < n; begin += most) {
            const i64 end = std::min(begin + most, n);
            chunks.push_back({&tensor, begin, end, (end - begin) * row_bytes});
        }
    }
    return chunks;
}

// Reads and converts the data of chunks. Thread-safe.
class ChunkReader {
  public:
    explicit ChunkReader(const ckpt::Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

    void read(const Chunk& chunk, std::span<std::byte> to) {
        const ExportedTensor& tensor = *chunk.tensor;
        const MappedTensor& map = tensor.map;
        if (!map.transposed) {
            load(tensor, map.part(chunk.begin, chunk.end - chunk.begin, 0, map.n_cols()), to);
        } else {
            const WholeTensors::Key key(WholeTensors::Key(), chunk.tensor);
            const i64 size = size_of(tensor.dtype);
            const i64 row_bytes = map.n_cols() * size;
            const i64 part_bytes = std::max<i64>(1, (i64{4} << 20) / row_bytes) * row_bytes;
            const auto all = whole_.get(
                key, tensor.n_bytes(), part_bytes, [&](i64 begin, std::span<std::byte> bytes) {
                    load(
                        tensor,
                        map.part(begin / row_bytes, std::ssize(bytes) / row_bytes, 0, map.n_cols()),
                        bytes);
                });
            transpose(all.get() + chunk.begin * size, map.n_cols(), map.n_rows(),
                      chunk.end - chunk.begin, size, to.data());
        }
        check_converted(checkpoint_.path(), map.name, tensor.kind, tensor.dtype, to);
    }

  private:
    // Reads the rows and columns of `part` in row-major order. Rows of padding become zeros.
    void load(const ExportedTensor& tensor, const MappedTensor& part,
              std::span<std::byte> to) const {
        std::vector<ckpt::Checkpoint::Request> requests;
        size_t at = 0;
        for (const RowRange& range : part.rows) {
            const i64 n = (range.end - range.begin) * part.n_cols();
            const auto n_bytes = static_cast<size_t>(n * size_of(tensor.dtype));
            std::byte* const out = to.subspan(at, n_bytes).data();
            at += n_bytes;
            if (range.tensor.empty()) {
                std::memset(out, 0, n_bytes);
                continue;
            }
            spec::Box box{{range.begin}, {range.end}};
            if (part.rank == 2) {
                box = {{range.begin, part.col_begin}, {range.end, part.col_end}};
            }
            requests.push_back(
                {range.tensor,
                 tensor.kind,
                 {.box = box, .flat_begin = 0, .flat_end = n, .dtype = tensor.dtype, .data = out}});
        }
        checkpoint_.load(requests);
    }

    const ckpt::Checkpoint& checkpoint_;
    WholeTensors whole_;
};

}  // namespace

void write_tensors(const ckpt::Checkpoint& checkpoint, std::span<const ExportedTensor> tensors,
                   const std::function<void(std::span<const std::byte>)>& sink) {
    const std::vector<Chunk> chunks = chunks_of(tensors);
    ChunkReader reader(checkpoint);
    const auto chunk = [&](i64 i) -> const Chunk& { return chunks[static_cast<size_t>(i)]; };
    io::for_each_block_in_order(
        std::ssize(chunks), io::blocks_in_flight,
        [&](i64 i, io::AlignedBlock& block) {
            reader.read(chunk(i), block.first(chunk(i).n_bytes));
        },
        [&](i64 i, io::AlignedBlock& block) { sink(block.first(chunk(i).n_bytes)); });
}

}  // namespace lm::convert
