// SPDX-License-Identifier: Apache-2.0
// Reading a checkpoint: any box of any tensor is put together from the slices that hold it, so that
// every layout loads every checkpoint. Checksums are verified before the first use of a slice.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "ckpt/flat.hpp"
#include "ckpt/index.hpp"
#include "ckpt/manifest.hpp"

namespace lm::ckpt {

// What is looked at when a step is opened: all of it, or, where `count` ranks open it at the same
// time, the index-th share, with the rest left to the others.
struct Share {
    i64 index = 0;
    i64 count = 1;
};

// Bytes that do not fit their checksum; its code is Exit::failure.
class DamageError : public Error {
  public:
    using Error::Error;
};

// One complete step, open for reading. Copies share the mapped files. Thread-safe.
class Checkpoint {
  public:
    // `path` is a global_stepN directory. Throws Error(failure) unless it is complete: manifest and
    // index parts fit their digests, every data file has its size and header, and a directory named
    // as a step is that step. Data is not read yet. With a share the manifest is read, and of the
    // index parts and files only the share; others are opened, and looked at in the same way, when
    // a load needs them, so that the ranks of a large job do not each open the files of all.
    explicit Checkpoint(const std::string& path, const Share& share = {});

    const std::string& path() const;
    const Manifest& manifest() const;
    const std::vector<IndexPart>& parts() const;            // not those that are not open yet
    const TensorInfo* find(std::string_view tensor) const;  // nullptr: none of that name
    bool has(SliceKind kind) const;  // are there slices of this kind in the open parts?
    i64 n_parts_read() const;
    i64 n_files_opened() const;

    // Where a load puts what it reads: elements [flat_begin, flat_end) of `box` in row-major order
    // from `data` on, as `dtype` (fp32, bf16 or fp16, converted when the file has another).
    struct Target {
        spec::Box box;
        i64 flat_begin = 0;
        i64 flat_end = 0;
        DType dtype = DType::fp32;
        void* data = nullptr;
    };

    // SliceKind::master reads the weights of a checkpoint without masters (fp32 weights are their
    // own). Throws Error(failure) naming file and tensor when the tensor is missing or not fully
    // covered, DamageError when it fails its checksum.
    void load(const std::string& tensor, SliceKind kind, const Target& target) const;

    // A rank's whole flat buffer, as pieces_of() saved it, or its elements [begin, end). Padded
    // rows and gaps are left as they are. A tensor of the table that is missing or has another
    // shape is Error(usage) naming both shapes.
    void load(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
              SliceKind kind, DType dtype, void* data) const;
    void load(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
              SliceKind kind, DType dtype, void* data, i64 begin, i64 end) const;

    // The whole tensor.
    std::vector<float> load_fp32(const std::string& tensor, SliceKind kind) const;

    // Checks one slice's bytes against its checksum; throws DamageError.
    void check(const Slice& slice) const;
    std::span<const std::byte> bytes(const Slice& slice) const;  // unchecked

  private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace lm::ckpt
