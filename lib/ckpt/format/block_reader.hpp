// SPDX-License-Identifier: Apache-2.0
// Reads and verifies blocks of slices. Checkpoint (checkpoint.hpp) uses it to read tensor data.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ckpt/format/geometry.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/format/manifest.hpp"
#include "io/block_file.hpp"

namespace lm::ckpt {

// The destination of a load: the elements [flat_begin, flat_end) of `box` in row-major order are
// converted to `dtype` (fp32, bf16 or fp16) and stored at `data`.
struct LoadTarget {
    spec::Box box;
    i64 flat_begin = 0;
    i64 flat_end = 0;
    DType dtype = DType::fp32;
    void* data = nullptr;
};

// A slice and the data file that holds it.
struct SliceIn {
    const DataFile* file = nullptr;
    const Slice* slice = nullptr;
};

// The elements that one target gets from one block of a slice.
struct BlockUse {
    struct Run {
        i64 at_block = 0;   // first element, counted from the start of the block
        i64 at_target = 0;  // first element, counted from LoadTarget::data
        i64 n = 0;
    };
    SliceIn from;
    i64 block = 0;      // number of the block in the slice
    size_t target = 0;  // index into the `targets` of BlockReader::load()
    std::vector<Run> runs;
    i64 n = 0;  // elements in all runs
};

// Appends a BlockUse to `uses` for each block of `slices` that holds elements of `target`.
// `at_target` is the index of `target` in the `targets` of BlockReader::load(). Returns the number
// of elements in the appended uses.
i64 add_uses(std::vector<BlockUse>& uses, const std::vector<SliceIn>& slices,
             const LoadTarget& target, size_t at_target);

std::string describe(const Slice& slice, const Manifest& manifest);  // "tensor NAME (KIND)"

// Reads blocks of the data files of one step and verifies them. Thread-safe.
class BlockReader {
  public:
    // `manifest` must live as long as the reader.
    BlockReader(std::string path, const Manifest& manifest);
    ~BlockReader();
    // Reads the blocks of `uses`, several at once, and writes their elements to `targets`. Throws
    // DamageError when a block does not match its digest.
    void load(const std::vector<BlockUse>& uses, const std::vector<LoadTarget>& targets);
    // Reads the bytes [begin, end) of a data file into `block` without verifying the bytes. Returns
    // the part of `block` that holds the bytes.
    std::span<std::byte> read(const DataFile& file, i64 begin, i64 end, io::AlignedBlock& block);
    i64 n_files_opened() const;

  private:
    void load_block(const BlockUse& use, const LoadTarget& target, io::AlignedBlock& block);
    std::span<const std::byte> read_verified(const BlockUse& use, io::AlignedBlock& block);
    struct OpenFiles;
    struct KeptBlocks;
    std::string path_;
    const Manifest& manifest_;
    std::unique_ptr<OpenFiles> files_;
    std::unique_ptr<KeptBlocks> kept_;
};

}  // namespace lm::ckpt
