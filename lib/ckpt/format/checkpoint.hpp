// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint: assembles any box of any tensor from the slices that hold it, so that every
// layout loads every checkpoint. Every block of a slice is read and verified in one pass, several
// blocks at once (io/block_file.hpp).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "ckpt/format/block_reader.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/format/flat_pieces.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/format/manifest.hpp"
#include "ckpt/format/tensor_source.hpp"

namespace lm::ckpt {

// The part of a step that open() reads and checks when `count` ranks open the same step. The rank
// with number `index` checks the index parts index, index + count, index + 2 count, ...
struct Share {
    i64 index = 0;
    i64 count = 1;
};

// A complete step, open for reading. Copies share the open files. Thread-safe.
class Checkpoint final : public TensorSource {
  public:
    // Opens the global_stepN directory `path` without reading tensor data. Throws DamageError
    // unless the step is complete: manifest and index parts match their digests, every data file
    // has its size, and the number in the directory's name is the iteration of the manifest. Throws
    // Error(failure) when the system cannot read these files. If share.count > 1, opens only the
    // index parts of the share and checks only the files that they list; load() opens other parts
    // when it needs them. So no rank of a large job has to open all files. A step that another run
    // replaces meanwhile is opened again.
    static Checkpoint open(const std::string& path, const Share& share = {});
    // Opens as the other open() does, but does not read the manifest file. `manifest` is the text
    // of the manifest, which another rank has read.
    static Checkpoint open(const std::string& path, const Share& share, std::string_view manifest);

    const std::string& path() const override;
    const Manifest& manifest() const;
    // Reads the manifest file again. Returns false when it is missing or has another digest than
    // manifest(): another run has set the step aside or replaced it, and a DamageError of load()
    // can come from a mixture of two undamaged steps. A damaged manifest is still this one.
    bool is_current() const;
    const spec::ModelConfig& model() const override { return manifest().model; }
    i64 iteration() const override { return manifest().counters.iteration; }
    const std::vector<TensorInfo>& tensors() const override { return manifest().tensors; }
    const std::vector<IndexPart>& parts() const;  // parts that are not open are empty
    const TensorInfo* find(std::string_view tensor) const override;
    bool has(SliceKind kind) const override;  // whether the step has slices of this kind
    i64 n_parts_read() const;
    i64 n_files_opened() const;

    using Target = LoadTarget;
    struct Request {
        std::string tensor;
        SliceKind kind;
        Target target;
    };

    // Reads parts of tensors into their targets, several blocks at once. SliceKind::master reads
    // the weights of a checkpoint without masters (fp32 weights are their own masters). Throws
    // Error(failure) when the tensor is missing, DamageError naming the tensor when the slices do
    // not cover the target or a block does not match its digest. Keeps at most 16 partly used
    // blocks in memory for later calls.
    void load(const std::vector<Request>& requests) const;
    void load(const std::string& tensor, SliceKind kind, const Target& target) const override;

    // Loads the elements [begin, end) of a rank's flat buffer (by default all) into data[0],
    // data[1], ... The buffer has the layout of pieces_of() (flat_pieces.hpp). Padded rows and gaps
    // are not written. Throws Error(usage) when the checkpoint lacks a tensor of `table` or has it
    // in another shape; the message names the tensor.
    void load(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
              SliceKind kind, DType dtype, void* data) const;
    void load(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
              SliceKind kind, DType dtype, void* data, i64 begin, i64 end) const;

    // Stores the elements [begin, end) of a flat buffer. `elements` is host memory that is valid
    // until the call returns.
    using Store = std::function<void(i64 begin, i64 end, const void* elements)>;
    // Loads the elements [begin, end) of a flat buffer that the CPU cannot write, for example in
    // GPU memory. Reads a bounded number of elements at a time into host memory, and passes them to
    // `store`.
    void load_staged(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
                     SliceKind kind, DType dtype, i64 begin, i64 end, const Store& store) const;

    // Returns a whole tensor as fp32.
    std::vector<float> load_fp32(const std::string& tensor, SliceKind kind) const;

    // Reads the bytes [begin, end) of a data file, at most io::block_bytes, into `block` without
    // verifying the bytes. Returns the part of `block` that holds the bytes.
    std::span<std::byte> read(const DataFile& file, i64 begin, i64 end,
                              io::AlignedBlock& block) const;
    // Return "PATH/FILE" and "tensor NAME (KIND)", for messages.
    std::string path_of(const DataFile& file) const { return path() + "/" + file.name; }
    std::string describe(const Slice& slice) const;

  private:
    struct State;
    explicit Checkpoint(std::shared_ptr<State> state);
    std::shared_ptr<State> state_;
};

}  // namespace lm::ckpt
