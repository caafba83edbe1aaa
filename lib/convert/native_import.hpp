// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint of lm-utils from tensors of other formats, a band of rows at a time.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ckpt/format/tensor_source.hpp"
#include "ckpt/history/save.hpp"
#include "convert/conversion.hpp"
#include "convert/source_tensor.hpp"
#include "convert/tensor_map.hpp"

namespace lm::convert {

// Rows [row, row + from.rows) and columns [col, col + from.cols) of a tensor of lm-utils.
struct SourceBlock {
    i64 row = 0;
    i64 col = 0;
    SourceMatrix from;
    std::vector<SourceMatrix> copies = {};  // the same part on other tensor-parallel ranks
};

// The result of reading all sources.
struct ImportVerification {
    std::vector<std::string> problems;  // "tensor NAME (KIND): PROBLEM"; empty: none
    i64 n_tensors = 0;                  // weight, master and moments of a tensor count separately
    i64 n_bytes = 0;
};

// The sources of all tensors of a checkpoint.
class NativeImport {
  public:
    explicit NativeImport(const spec::ModelConfig& config) : tensors_(config) {}

    const ModelTensors& tensors() const { return tensors_; }
    // Adds the tensor `from` of another format, which is described by `map`, as a source of `kind`.
    // Throws Error(failure) when `from` does not have the shape of `map`.
    void add(const MappedTensor& map, ckpt::SliceKind kind, const SourceTensor& from);
    // Adds another tensor-parallel rank's copy of a tensor that add() has added.
    void add_copy(const MappedTensor& map, ckpt::SliceKind kind, const SourceTensor& from);
    bool has(ckpt::SliceKind kind) const;
    // Throws Error(failure) naming `in` when a tensor has elements without a source.
    void check_complete(const std::string& in) const;
    // Returns the name of the first tensor whose weights, of type `weights`, are not equal to its
    // rounded masters; an empty text when there is none. Compares only the first 1024 elements of
    // each tensor.
    std::string tensor_with_other_masters(DType weights) const;

    // Reads the elements [begin, end) of a tensor to `out`. If the tensor has no source of `kind`,
    // reads its weights. Thread-safe.
    void load(const std::string& tensor, ckpt::SliceKind kind, DType dtype, i64 begin, i64 end,
              std::byte* out, SourceReaders& readers) const;

    // Writes the step into the directory request.out, which appears whole or not at all. All
    // members of `info` except the model and the command line must be set. Throws Error(failure)
    // when a tensor has elements without a source.
    ConversionReport write(const ConversionRequest& request, ckpt::SaveInfo info) const;

    // Reads all tensors, with weights of type `weights`, and reports numbers that are not finite
    // and, if request.replicas is set, copies that differ. Throws Error(failure) for a corrupt
    // file.
    ImportVerification verify(const ConversionRequest& request, DType weights) const;

  private:
    using Key = std::pair<i64, ckpt::SliceKind>;
    // State that the threads of one import share.
    struct Reading {
        const ConversionRequest& request;
        i64 n_total = 0;  // bytes of all pieces
        SourceReaders readers = {};
        std::mutex mutex = {};             // guards the members after it
        i64 n_bytes = 0;                   // bytes read so far
        std::map<Key, double> drift = {};  // largest difference between copies
    };
    // Returns a piece for each tensor of each kind. Several threads may read the pieces at once.
    // `reading` must outlive the pieces.
    std::vector<ckpt::Piece> pieces(Reading& reading, DType weights) const;

    ModelTensors tensors_;
    std::map<Key, std::vector<SourceBlock>> blocks_;
};

// The import of a whole model.
struct ImportedModel {
    std::string path;
    NativeImport import;
    DType weights = DType::fp32;
    i64 iteration = 0;
    // True: a value is first rounded to its stored type, which is `weights` or, for masters and
    // moments, fp32.
    bool rounds = false;
};
// Returns the tensors of a model, read from its files. Throws Error(failure) when a tensor has
// elements without a source.
std::unique_ptr<ckpt::TensorSource> open_tensors(ImportedModel model);

}  // namespace lm::convert
