// SPDX-License-Identifier: Apache-2.0
// The common part of the exports to Megatron-LM and to Megatron-DeepSpeed.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ckpt/history/steps.hpp"
#include "convert/megatron/megatron_export.hpp"

namespace lm::convert {

constexpr double megatron_checkpoint_version = 3.0;

class MegatronExporter {
  public:
    // With `for_lm`, exports tensors under the names of Megatron-LM that the request selects;
    // otherwise under the names of Megatron-DeepSpeed.
    MegatronExporter(const ConversionRequest& request, bool for_lm)
        : request_(request),
          checkpoint_(ckpt::open(request.in)),
          layout_(checkpoint_.manifest().model, request.tp, request.pp, request.vocab_multiple,
                  for_lm ? megatron_names_of(checkpoint_.manifest().model, request.names)
                         : MegatronNames::classic),
          dtype_(request.dtype.value_or(checkpoint_.manifest().tensors.at(0).dtype)),
          has_optimizer_(ckpt::optimizer_of(checkpoint_) == spec::OptimizerKind::adam),
          optimizer_(exported_optimizer(checkpoint_.manifest(), checkpoint_.path())),
          tokenizer_(ckpt::read_tokenizer_files(checkpoint_.path(),
                                                checkpoint_.manifest().tokenizer.files)) {}

  protected:
    using Tensors = std::vector<MegatronTensor>;

    ConversionReport finish(io::AtomicDirectory& out) {
        ckpt::write_tokenizer_files(tokenizer_, out.path());
        report_.end_of_document = checkpoint_.manifest().tokenizer.end_of_document;
        if (request_.check) request_.check(out.path());
        out.commit();
        return report_;
    }

    i64 iteration() const { return checkpoint_.manifest().counters.iteration; }
    static i64 n_states() { return std::ssize(spec::adam_states); }
    bool mixed() const { return is_half(dtype_); }
    ckpt::SliceKind weight_kind() const {
        const bool stored = dtype_ == checkpoint_.manifest().tensors.at(0).dtype;
        return stored ? ckpt::SliceKind::weight : ckpt::SliceKind::master;
    }
    MegatronFile new_file() { return {checkpoint_, request_, report_, n_total_}; }

    // Returns the parameter groups of Megatron: the tensors with weight decay, then the tensors
    // without.
    static std::array<std::vector<const MegatronTensor*>, 2> groups(const Tensors& tensors) {
        std::array<std::vector<const MegatronTensor*>, 2> result;
        for (const MegatronTensor& tensor : tensors) {
            result[tensor.decays() ? 0 : 1].push_back(&tensor);
        }
        return result;
    }

    const ConversionRequest& request_;
    ckpt::Checkpoint checkpoint_;
    MegatronLayout layout_;
    DType dtype_;
    bool has_optimizer_;
    ExportedOptimizer optimizer_;
    // Megatron does not read these files; they are there for an import.
    std::vector<ckpt::TokenizerFile> tokenizer_;
    i64 n_total_ = 0;  // bytes to write
    ConversionReport report_;
};

}  // namespace lm::convert
