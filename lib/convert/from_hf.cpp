// SPDX-License-Identifier: Apache-2.0
#include "convert/from_hf.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "convert/hf_architecture.hpp"
#include "convert/hf_config.hpp"
#include "convert/hf_files.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::convert {
namespace {

HfModel read_model(const std::string& path) {
    if (!io::exists(path)) {
        usage_error(path,
                    "does not exist: copy the model's config.json, which states the number of "
                    "heads, to this path");
    }
    return hf_model(io::read_json(path), path);
}

// Finds tensors in the files by their names in the class with a language-model head
// (GPT2LMHeadModel). Files of the class without a head (GPT2Model) omit the prefix of these names.
class NamedTensors {
  public:
    NamedTensors(const HfArchitecture& architecture, const HfTensors& tensors)
        : tensors_(tensors), prefix_(architecture.prefix), head_(architecture.head) {
        const std::string first =
            fmt::format("{}{}", prefix_, architecture.before_layers.front().theirs);
        prefixed_ = tensors.find(first) != nullptr;
    }

    std::string in_file(const std::string& name) const {
        return prefixed_ || !name.starts_with(prefix_) ? name : name.substr(prefix_.size());
    }
    const SourceTensor* find(const std::string& name) const { return tensors_.find(in_file(name)); }
    bool is_head(const std::string& in_file) const { return in_file == head_; }

  private:
    const HfTensors& tensors_;
    std::string prefix_;
    std::string head_;
    bool prefixed_ = false;
};

// Throws unless the stored head equals the word embedding matrix. Called for a model that ties the
// two.
void check_tied(const SourceTensor& head, const SourceTensor& word) {
    constexpr i64 most = i64{4} << 20;
    bool same = head.shape == word.shape && head.storage->dtype == word.storage->dtype;
    const SourceMatrix a = head.matrix();
    const SourceMatrix b = word.matrix();
    const i64 rows = std::max<i64>(1, most / std::max<i64>(1, a.cols));
    std::vector<std::byte> bytes_a;
    std::vector<std::byte> bytes_b;
    SourceReader reader;
    for (i64 row = 0; same && row < a.rows; row += rows) {
        const i64 end = std::min(row + rows, a.rows);
        const DType dtype = head.storage->dtype;
        bytes_a.resize(static_cast<size_t>((end - row) * a.cols * size_of(dtype)));
        bytes_b.resize(bytes_a.size());
        reader.read(a.row_range(row, end), dtype, bytes_a.data(), a.cols);
        reader.read(b.row_range(row, end), dtype, bytes_b.data(), a.cols);
        same = bytes_a == bytes_b;
    }
    if (same) return;
    run_error(head.path(),
              "{} differs from {}, although tie_word_embeddings is true for this model: correct "
              "config.json",
              head.name, word.name);
}

// Throws for a tensor that was not used, unless it is a tied head or one of the architecture's
// buffers.
void check_rest(const HfArchitecture& architecture, const ModelTensors& model,
                const HfTensors& tensors, const NamedTensors& named,
                const std::set<std::string>& used) {
    for (const auto& entry : tensors.all()) {
        const std::string& name = entry.first;
        const auto& tensor = entry.second;
        if (used.contains(name)) continue;
        if (named.is_head(name) && !model.config().untied_head) {
            const HfRow& word = architecture.before_layers.front();
            check_tied(tensor, *named.find(fmt::format("{}{}", architecture.prefix, word.theirs)));
            continue;
        }
        const bool buffer = std::ranges::any_of(
            architecture.buffers, [&](std::string_view ending) { return name.ends_with(ending); });
        if (buffer) continue;
        run_error(tensor.path(), "tensor {} is not part of a {} model of this configuration", name,
                  architecture.class_name);
    }
}

}  // namespace

OpenedHf open_hf(const std::string& path) {
    const HfModel model = read_model(hf_config_path(path));
    const HfTensors tensors = HfTensors::open(path);
    const NamedTensors named(*model.architecture, tensors);
    OpenedHf opened{model.tokenizer, NativeImport(model.config)};
    std::set<std::string> used;
    for (const MappedTensor& map : hf_tensors(*model.architecture, opened.import.tensors())) {
        const SourceTensor* tensor = named.find(map.name);
        if (!tensor) {
            run_error(path, "tensor {} is missing: copy all files of the model",
                      named.in_file(map.name));
        }
        used.insert(tensor->name);
        opened.import.add(map, ckpt::SliceKind::weight, *tensor);
    }
    check_rest(*model.architecture, opened.import.tensors(), tensors, named, used);
    opened.n_tensors = std::ssize(used);
    return opened;
}

ConversionReport from_hf(const ConversionRequest& request) {
    const OpenedHf opened = open_hf(request.in);
    ckpt::SaveInfo info;
    info.tokenizer = opened.tokenizer;
    info.weights = request.dtype.value_or(DType::fp32);
    ConversionReport report = opened.import.write(request, info);
    report.n_tensors = opened.n_tensors;
    return report;
}

}  // namespace lm::convert
