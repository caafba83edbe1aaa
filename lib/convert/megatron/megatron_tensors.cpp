// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/megatron_tensors.hpp"

#include "base/error.hpp"
#include "ckpt/format/elements.hpp"
#include "convert/megatron/open_megatron.hpp"

namespace lm::convert {
namespace {

class MegatronTensors final : public ckpt::TensorSource {
  public:
    // `import` refers to `request`, so this object stores both.
    MegatronTensors(std::unique_ptr<const ConversionRequest> request, MegatronImport import)
        : request_(std::move(request)), import_(std::move(import)) {
        for (const spec::TensorSpec& tensor : import_.tensors()) {
            tensors_.push_back({tensor.name, tensor.shape, import_.weights()});
        }
    }

    const std::string& path() const override { return request_->in; }
    const spec::ModelConfig& model() const override { return import_.config(); }
    i64 iteration() const override { return import_.head().iteration; }
    const std::vector<ckpt::TensorInfo>& tensors() const override { return tensors_; }
    const ckpt::TensorInfo* find(std::string_view tensor) const override {
        const auto& names = import_.sources().tensors();
        const std::string name(tensor);
        return names.find(name) ? &tensors_[static_cast<size_t>(names.index(name))] : nullptr;
    }
    bool has(ckpt::SliceKind kind) const override { return import_.has(kind); }
    void load(const std::string& tensor, ckpt::SliceKind kind,
              const ckpt::LoadTarget& target) const override {
        const Shape& shape = find(tensor)->shape;
        LM_CHECK(target.box.shape().numel() == shape.numel(),
                 "{}: expected the box of the whole tensor {}, got {}", tensor, shape.str(),
                 target.box.shape().str());
        auto* const out = static_cast<std::byte*>(target.data);
        const auto load_as = [&](DType dtype, std::byte* to) {
            import_.sources().load(tensor, kind, dtype, target.flat_begin, target.flat_end, to,
                                   readers_);
        };
        const DType stored = kind == ckpt::SliceKind::weight ? import_.weights() : DType::fp32;
        if (stored == target.dtype) return load_as(stored, out);
        // Universal checkpoints of DeepSpeed have only masters. Their weights are the rounded
        // masters.
        const i64 n = target.flat_end - target.flat_begin;
        std::vector<std::byte> elements(static_cast<size_t>(n * size_of(stored)));
        load_as(stored, elements.data());
        ckpt::convert_elements(elements.data(), stored, out, target.dtype, n);
    }

  private:
    std::unique_ptr<const ConversionRequest> request_;
    MegatronImport import_;
    std::vector<ckpt::TensorInfo> tensors_;
    mutable SourceReaders readers_;
};

}  // namespace

std::unique_ptr<ckpt::TensorSource> open_megatron_tensors(const std::string& path,
                                                          bool weights_only) {
    auto request = std::make_unique<ConversionRequest>();
    request->in = path;
    request->weights_only = weights_only;
    MegatronImport import = open_megatron(*request);
    import.sources().check_complete(path);
    return std::make_unique<MegatronTensors>(std::move(request), std::move(import));
}

}  // namespace lm::convert
