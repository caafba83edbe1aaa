// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/source.hpp"

#include "base/error.hpp"
#include "convert/hf/files.hpp"
#include "convert/hf/from_hf.hpp"

namespace lm::convert {
namespace {

class HfModelTensors final : public ckpt::TensorSource {
  public:
    HfModelTensors(std::string path, NativeImport import, DType dtype)
        : path_(std::move(path)), import_(std::move(import)) {
        for (const spec::TensorSpec& tensor : import_.tensors().table()) {
            tensors_.push_back({tensor.name, tensor.shape, dtype});
        }
    }

    const std::string& path() const override { return path_; }
    const spec::ModelConfig& model() const override { return import_.tensors().config(); }
    i64 iteration() const override { return 0; }
    const std::vector<ckpt::TensorInfo>& tensors() const override { return tensors_; }
    const ckpt::TensorInfo* find(std::string_view tensor) const override {
        const std::string name(tensor);
        const ModelTensors& names = import_.tensors();
        return names.find(name) ? &tensors_[static_cast<size_t>(names.index(name))] : nullptr;
    }
    bool has(ckpt::SliceKind kind) const override { return import_.has(kind); }
    void load(const std::string& tensor, ckpt::SliceKind,
              const ckpt::LoadTarget& target) const override {
        const Shape& shape = find(tensor)->shape;
        LM_CHECK(target.box.shape().numel() == shape.numel(),
                 "{}: expected the box of the whole tensor {}, got {}", tensor, shape.str(),
                 target.box.shape().str());
        import_.load(tensor, ckpt::SliceKind::weight, target.dtype, target.flat_begin,
                     target.flat_end, static_cast<std::byte*>(target.data), readers_);
    }

  private:
    std::string path_;
    NativeImport import_;
    std::vector<ckpt::TensorInfo> tensors_;
    mutable SourceReaders readers_;
};

}  // namespace

HfSource open_hf_source(const std::string& path) {
    OpenedHf opened = open_hf(path);
    opened.import.check_complete(path);
    return {std::make_unique<HfModelTensors>(path, std::move(opened.import), hf_weights_type(path)),
            opened.tokenizer};
}

}  // namespace lm::convert
