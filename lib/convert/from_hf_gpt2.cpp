// SPDX-License-Identifier: Apache-2.0
#include "convert/from_hf_gpt2.hpp"

#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "ckpt/elements.hpp"
#include "ckpt/geometry.hpp"
#include "ckpt/index.hpp"
#include "ckpt/save.hpp"
#include "convert/gpt2_map.hpp"
#include "convert/hf_files.hpp"
#include "convert/transpose.hpp"
#include "io/atomic.hpp"

namespace lm::convert {
namespace {

using Bytes = std::vector<std::byte>;

Gpt2Model read_model(const std::string& path) {
    if (!io::exists(path)) {
        usage_error(path, "does not exist: only this file states the number of heads");
    }
    return gpt2_model(io::read_json(path), path);
}

// Writes a Hugging Face model as a checkpoint at step 0.
class Importer {
  public:
    Importer(const ConversionRequest& request, Gpt2Model model, HfTensors tensors)
        : request_(request),
          model_(std::move(model)),
          tensors_(std::move(tensors)),
          dtype_(request.dtype.value_or(DType::fp32)),
          table_(spec::tensor_table(model_.config)) {
        for (size_t i = 0; i < table_.size(); ++i) index_[table_[i].name] = static_cast<i64>(i);
    }

    ConversionReport run() {
        const bool prefixed = tensors_.find(std::string(gpt2_prefix) + "wte.weight") != nullptr;
        const std::vector<Gpt2Tensor> wanted = gpt2_tensors(model_.config.n_layers);
        std::set<std::string> used;
        for (const Gpt2Tensor& tensor : wanted) {
            const std::string name =
                prefixed ? tensor.name : tensor.name.substr(gpt2_prefix.size());
            used.insert(name);
            import_tensor(tensor, name);
        }
        check_rest(used, prefixed);
        return write();
    }

  private:
    // Checks that every other tensor of the files is known not to be a parameter.
    void check_rest(const std::set<std::string>& used, bool prefixed) const {
        for (const auto& [name, found] : tensors_.all()) {
            if (used.contains(name)) continue;
            std::string_view plain = name;
            if (prefixed && plain.starts_with(gpt2_prefix)) plain.remove_prefix(gpt2_prefix.size());
            if (!is_gpt2_buffer(plain)) {
                run_error(found.file->path(),
                          "tensor {} is not part of a GPT-2 model of this configuration", name);
            }
            if (plain == "lm_head.weight") check_tied(found, prefixed);
        }
    }

    void check_tied(const HfTensors::Found& head, bool prefixed) const {
        const auto* word = tensors_.find(prefixed ? "transformer.wte.weight" : "wte.weight");
        const auto a = head.bytes();
        const auto b = word->bytes();
        if (a.size() != b.size() || std::memcmp(a.data(), b.data(), a.size()) != 0) {
            run_error(
                head.file->path(),
                "lm_head.weight differs from wte.weight: only models with tied embeddings can be "
                "converted");
        }
    }

    void import_tensor(const Gpt2Tensor& tensor, const std::string& name) {
        const HfTensors::Found* found = tensors_.find(name);
        if (!found) run_error(request_.in, "tensor {} is missing: is the model complete?", name);
        const std::optional<DType> type = ckpt::dtype_of_safetensors(found->entry->dtype);
        if (type != DType::fp32 && type != DType::bf16 && type != DType::fp16) {
            run_error(found->file->path(), "tensor {}: expected F32, BF16 or F16, got {}", name,
                      found->entry->dtype);
        }
        check_shape(tensor, *found);
        const i64 n = (found->entry->end - found->entry->begin) / size_of(*type);
        Bytes values(static_cast<size_t>(n * size_of(dtype_)));
        ckpt::convert_elements(found->bytes().data(), *type, values.data(), dtype_, n);
        split(tensor, values);
        report_.n_bytes += static_cast<i64>(values.size());
        ++report_.n_tensors;
        if (request_.progress) request_.progress(report_.n_bytes);
    }

    const Shape& shape_of(const std::string& name) const {
        return table_[static_cast<size_t>(index_.at(name))].shape;
    }

    i64 rows_of(const Gpt2Tensor& tensor) const {
        i64 rows = 0;
        for (const std::string& part : tensor.parts) rows += shape_of(part)[0];
        return rows;
    }

    void check_shape(const Gpt2Tensor& tensor, const HfTensors::Found& found) const {
        const Shape& first = shape_of(tensor.parts[0]);
        std::vector<i64> wanted{rows_of(tensor)};
        if (first.rank() == 2) wanted.push_back(first[1]);
        if (tensor.transposed) std::swap(wanted[0], wanted[1]);
        if (found.entry->shape == wanted) return;
        run_error(found.file->path(), "tensor {}: expected shape {} by config.json, got {}",
                  found.entry->name, io::Json(wanted).dump(), io::Json(found.entry->shape).dump());
    }

    // Splits a Hugging Face tensor into the tensors of lm-utils.
    void split(const Gpt2Tensor& tensor, const Bytes& values) {
        const i64 size = size_of(dtype_);
        const i64 all_rows = rows_of(tensor);
        i64 row = 0;
        for (const std::string& name : tensor.parts) {
            const Shape& shape = shape_of(name);
            const i64 cols = shape.rank() == 2 ? shape[1] : 1;
            Bytes& part = parts_[name];
            part.resize(static_cast<size_t>(shape.numel() * size));
            if (tensor.transposed) {
                copy_transposed(values.data() + row * size, all_rows, shape[0], cols, part);
            } else {
                std::memcpy(part.data(), values.data() + row * cols * size, part.size());
            }
            row += shape[0];
        }
    }

    void copy_transposed(const std::byte* from, i64 stride, i64 rows, i64 cols, Bytes& to) const {
        if (size_of(dtype_) == 4) {
            untranspose(reinterpret_cast<const u32*>(from), stride, rows, cols,
                        reinterpret_cast<u32*>(to.data()));
        } else {
            untranspose(reinterpret_cast<const u16*>(from), stride, rows, cols,
                        reinterpret_cast<u16*>(to.data()));
        }
    }

    ConversionReport write() {
        std::vector<ckpt::Piece> pieces;
        for (const spec::TensorSpec& tensor : table_) {
            const ckpt::Region all = ckpt::whole(tensor.shape);
            pieces.push_back({.tensor = index_.at(tensor.name),
                              .kind = ckpt::SliceKind::weight,
                              .dtype = dtype_,
                              .box = all.box,
                              .flat_begin = 0,
                              .flat_end = all.flat_end,
                              .data = parts_.at(tensor.name).data()});
        }
        ckpt::SaveInfo info;
        info.model = model_.config;
        info.tokenizer = model_.tokenizer;
        info.command_line = request_.command_line;
        info.weights = dtype_;
        info.state = {{"converted_from", request_.in}};
        io::AtomicDirectory out = make_output(request_.out, {request_.in}, request_.force);
        ckpt::save({out.path(), 0}, info, pieces);
        if (request_.check) request_.check(out.path());
        out.commit();
        report_.end_of_document = model_.tokenizer.end_of_document;
        return report_;
    }

    const ConversionRequest& request_;
    Gpt2Model model_;
    HfTensors tensors_;
    DType dtype_;
    std::vector<spec::TensorSpec> table_;
    std::map<std::string, i64> index_;
    std::map<std::string, Bytes> parts_;  // data of the tensors of lm-utils, by name
    ConversionReport report_;
};

}  // namespace

ConversionReport from_hf_gpt2(const ConversionRequest& request) {
    Gpt2Model model = read_model(hf_config_path(request.in));
    return Importer(request, std::move(model), HfTensors::open(request.in)).run();
}

}  // namespace lm::convert
