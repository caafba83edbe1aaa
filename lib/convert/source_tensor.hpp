// SPDX-License-Identifier: Apache-2.0
// Tensors in files of other formats: elements of one type in one or several files, and matrices
// that view them with strides. Files are read, not memory-mapped.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/types.hpp"
#include "convert/whole_tensors.hpp"

namespace lm::convert {

// Computes to[col * rows + row] = from[row * stride + col] for `rows` rows and `cols` columns.
// Counts and `stride` are in elements of `size` bytes, 2, 4 or 8; both arrays are aligned to
// `size`.
void transpose(const std::byte* from, i64 stride, i64 rows, i64 cols, i64 size, std::byte* to);

// A record of an archive, and the state of its check: its CRC-32 is verified before the first use.
struct RecordCheck {
    i64 offset = 0;
    i64 size = 0;
    u32 crc = 0;  // 0: not known
    bool done = false;
    std::mutex mutex = {};  // guards `done`
};
// Reads the record of the file `path` and compares its CRC, unless an earlier call has done this.
// Throws Error(failure) when the CRC does not match. Thread-safe: while one thread reads, the
// others wait.
void verify(const std::string& path, RecordCheck& record);

// `n` elements that start at byte `offset` of the file `path`.
struct Extent {
    std::string path;
    i64 offset = 0;
    i64 n = 0;
    std::shared_ptr<RecordCheck> check = {};  // the record with these elements; nullptr: no CRC
};

// A sequence of extents. For example, the ZeRO shards of a parameter are one storage.
struct Storage {
    DType dtype = DType::fp32;
    std::vector<Extent> extents;
    i64 numel() const;
};

// Element (row, col) of the matrix is element start + row * row_stride + col * col_stride of the
// storage. A vector of n elements is a matrix [n, 1].
struct SourceMatrix {
    std::shared_ptr<const Storage> storage;
    i64 start = 0;
    i64 rows = 0;
    i64 cols = 0;
    i64 row_stride = 0;
    i64 col_stride = 1;

    SourceMatrix row_range(i64 begin, i64 end) const;
    SourceMatrix col_range(i64 begin, i64 end) const;
    SourceMatrix transposed() const;
};

// A named tensor of a file, with its shape and strides in elements.
struct SourceTensor {
    std::string name;
    std::shared_ptr<const Storage> storage;
    i64 start = 0;
    std::vector<i64> shape;
    std::vector<i64> strides;

    const std::string& path() const { return storage->extents.front().path; }
    // Returns a tensor of rank 1 or 2 as a matrix.
    SourceMatrix matrix() const;
};

// Returns the number of elements; throws like checked_mul().
i64 numel(std::span<const i64> shape);
// Returns the strides of a row-major tensor without gaps.
std::vector<i64> contiguous_strides(std::span<const i64> shape);

// Reads matrices. Not thread-safe, but the readers of several threads may share `whole`.
class SourceReader {
  public:
    explicit SourceReader(std::shared_ptr<WholeTensors> whole = std::make_shared<WholeTensors>())
        : whole_(std::move(whole)) {}

    // Reads `from` to out[row * out_stride + col], converted to `dtype`. Normally reads a band of
    // rows at a time. When the elements of a row are far from each other, as in a transposed
    // matrix, reads the whole storage into memory.
    void read(const SourceMatrix& from, DType dtype, std::byte* out, i64 out_stride);

  private:
    void read_near(const SourceMatrix& from, DType dtype, std::byte* out, i64 out_stride);
    void gather(const SourceMatrix& from, const std::byte* base, i64 first, DType dtype,
                std::byte* out, i64 out_stride);

    std::shared_ptr<WholeTensors> whole_;
    std::vector<std::byte> band_;
    std::vector<std::byte> rows_;
};

// A pool of readers for several threads. Thread-safe.
class SourceReaders {
  public:
    // Calls `body` with a reader that no other call uses.
    void with_reader(const std::function<void(SourceReader&)>& body);

  private:
    std::shared_ptr<WholeTensors> whole_ = std::make_shared<WholeTensors>();
    std::mutex mutex_;  // guards idle_
    std::vector<std::unique_ptr<SourceReader>> idle_;
};

// Reads the elements [begin, begin + n) of a storage, in the storage's type.
void read_storage(const Storage& storage, i64 begin, i64 n, std::byte* out);

}  // namespace lm::convert
