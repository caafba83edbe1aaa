// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint: assembles any box of any tensor from the slices that hold it, so that every
// layout loads every checkpoint. Verifies the checksum of a slice before its first use.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "ckpt/damage.hpp"
#include "ckpt/flat.hpp"
#include "ckpt/index.hpp"
#include "ckpt/manifest.hpp"

namespace lm::ckpt {

// The part of a step that open() reads and checks, where `count` ranks open the same step. Rank
// number `index` checks every count-th index part, starting with part number `index`.
struct Share {
    i64 index = 0;
    i64 count = 1;
};

// A complete step, open for reading. Copies share the mapped files. Thread-safe.
class Checkpoint {
  public:
    // Opens the global_stepN directory `path` without reading tensor data. Throws Error(failure)
    // unless it is complete: manifest and index parts match their digests, every data file has its
    // size and header, and the number in the directory's name is the iteration of the manifest.
    // With a share, open() opens only the index parts and files of the share. load() opens and
    // checks other parts when it needs them, so that the ranks of a large job do not all open all
    // files.
    static Checkpoint open(const std::string& path, const Share& share = {});

    const std::string& path() const;
    const Manifest& manifest() const;
    const std::vector<IndexPart>& parts() const;            // parts that are not open are empty
    const TensorInfo* find(std::string_view tensor) const;  // nullptr: no tensor of that name
    bool has(SliceKind kind) const;  // whether the step has slices of this kind
    i64 n_parts_read() const;
    i64 n_files_opened() const;

    // The destination of a load: elements [flat_begin, flat_end) of `box` in row-major order,
    // converted to `dtype` (fp32, bf16 or fp16) and stored from `data` on.
    struct Target {
        spec::Box box;
        i64 flat_begin = 0;
        i64 flat_end = 0;
        DType dtype = DType::fp32;
        void* data = nullptr;
    };

    // Reads a part of one tensor. SliceKind::master reads the weights of a checkpoint without
    // masters (fp32 weights are their own masters). Throws Error(failure) naming file and tensor
    // when the tensor is missing or not fully covered, DamageError when a slice fails its checksum.
    void load(const std::string& tensor, SliceKind kind, const Target& target) const;

    // Reads the elements [begin, end) of a rank's flat buffer (by default all) into data[0],
    // data[1], ... The buffer has the layout of pieces_of() (flat.hpp). Padded rows and gaps are
    // not written. Throws Error(usage) naming both shapes when a tensor of the table is missing or
    // has another shape.
    void load(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
              SliceKind kind, DType dtype, void* data) const;
    void load(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
              SliceKind kind, DType dtype, void* data, i64 begin, i64 end) const;

    // Reads a flat buffer that the host cannot write. Calls `store` with the elements [begin, end)
    // of the buffer, a bounded number at a time. `elements` is host memory that is valid until
    // `store` returns.
    using Store = std::function<void(i64 begin, i64 end, const void* elements)>;
    void load_staged(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
                     SliceKind kind, DType dtype, i64 begin, i64 end, const Store& store) const;

    // Returns a whole tensor as fp32.
    std::vector<float> load_fp32(const std::string& tensor, SliceKind kind) const;

    // Verifies the checksum of one slice; throws DamageError when it does not match.
    void check(const Slice& slice) const;
    std::span<const std::byte> bytes(const Slice& slice) const;  // not verified

  private:
    struct State;
    explicit Checkpoint(std::shared_ptr<State> state);
    std::shared_ptr<State> state_;
};

}  // namespace lm::ckpt
