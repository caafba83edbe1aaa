// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/to_hf.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/safetensors.hpp"
#include "ckpt/history/steps.hpp"
#include "convert/hf/config_json.hpp"
#include "convert/hf/files.hpp"
#include "convert/hf/fits.hpp"
#include "convert/native_export.hpp"
#include "convert/tokenizer_fit.hpp"
#include "convert/torch/torch_writer.hpp"
#include "io/atomic.hpp"
#include "io/json.hpp"

namespace lm::convert {
namespace {

constexpr i64 gpt2_vocabulary = 50257;

// Writes a directory that AutoModelForCausalLM.from_pretrained() loads.
class Exporter {
  public:
    Exporter(const ConversionRequest& request, const HfClass& hf,
             const ckpt::Checkpoint& checkpoint)
        : request_(request), hf_(hf), checkpoint_(checkpoint) {
        const DType stored = checkpoint_.manifest().tensors.at(0).dtype;
        dtype_ = request.dtype.value_or(stored);
        // If the requested type is the stored type, uses the stored weights. Otherwise converts the
        // masters, which are more exact.
        kind_ = dtype_ == stored ? ckpt::SliceKind::weight : ckpt::SliceKind::master;
    }

    ConversionReport run() {
        const spec::ModelConfig& model = checkpoint_.manifest().model;
        check_fits(hf_, model);
        if (const std::string from = tokenizer_place(); !from.empty())
            check_tokenizer_fits(from, model.vocab_size);
        for (MappedTensor& tensor : hf_tensors(hf_, ModelTensors(model))) {
            sizes_.push_back({tensor.name, tensor.numel() * size_of(dtype_)});
            report_.n_bytes += sizes_.back().bytes;
            ++report_.n_tensors;
            std::string name = tensor.name;
            tensors_.emplace(std::move(name), std::move(tensor));
        }
        io::AtomicDirectory out = make_output(request_.out, {request_.in}, request_.force);
        write_weights(out.path());
        write_json(out.path(), model);
        write_tokenizer(out.path(), model);
        if (request_.check) request_.check(out.path());
        out.commit();
        return report_;
    }

  private:
    // Passes the bytes of tensors in the given order to `writer`.
    template <typename Writer>
    void append_all(Writer& writer, const std::vector<ExportedTensor>& tensors) {
        write_tensors(checkpoint_, tensors, [&](std::span<const std::byte> bytes) {
            writer.append(bytes);
            n_written_ += static_cast<i64>(bytes.size());
            if (request_.progress) request_.progress(n_written_, report_.n_bytes);
        });
        writer.commit();
    }

    // Writes a PyTorch shard. `names` never has a tied head, because transformers ties the head to
    // the embedding when it loads the model.
    void write_torch_shard(const std::string& path, const std::vector<std::string>& names) {
        PickleWriter pickle;
        std::vector<ExportedTensor> tensors;
        pickle.open_dict();
        for (const std::string& name : names) {
            pickle.key(name).tensor(dtype_, tensors_.at(name).shape());
            tensors.push_back({tensors_.at(name), kind_, dtype_});
        }
        pickle.close_dict();
        TorchWriter writer = TorchWriter::create(path, std::move(pickle));
        append_all(writer, tensors);
    }

    void write_shard(const std::string& path, const std::vector<std::string>& names) {
        std::vector<ckpt::SafetensorsEntry> entries;
        for (const std::string& name : names) {
            entries.push_back({name, std::string(ckpt::safetensors_name(dtype_)),
                               tensors_.at(name).shape(), 0, 0});
        }
        auto writer = ckpt::SafetensorsWriter::create(path, std::move(entries), {{"format", "pt"}});
        std::vector<ExportedTensor> tensors;
        for (const ckpt::SafetensorsEntry& entry : writer.entries()) {
            tensors.push_back({tensors_.at(entry.name), kind_, dtype_});
        }
        append_all(writer, tensors);
    }

    void write_weights(const std::string& directory) {
        const auto shards = plan_shards(sizes_, request_.max_shard_bytes);
        const auto n_shards = static_cast<i64>(shards.size());
        const bool torch = request_.files == WeightFiles::bin;
        const std::string stem = torch ? "pytorch_model" : "model";
        const std::string ending = torch ? ".bin" : ".safetensors";
        for (i64 shard = 0; shard < n_shards; ++shard) {
            const std::string path = directory + "/" + shard_name(shard, n_shards, stem, ending);
            const auto& names = shards[static_cast<size_t>(shard)];
            torch ? write_torch_shard(path, names) : write_shard(path, names);
        }
        if (n_shards == 1) return;
        io::write_file(fmt::format("{}/{}{}.index.json", directory, stem, ending),
                       index_json(shards, report_.n_bytes, stem, ending), io::Overwrite::no);
    }

    void write_json(const std::string& directory, const spec::ModelConfig& model) {
        ckpt::TokenizerInfo tokenizer = checkpoint_.manifest().tokenizer;
        ckpt::SpecialIds& ids = tokenizer.config;
        ckpt::SpecialIds& generation = tokenizer.generation_config;
        add_missing(ids, generation);
        add_missing(ids, {.eos = eos_of(tokenizer.end_of_document)});
        const ckpt::SpecialIds others = ids_of_tokenizer(model);
        if (!ids.eos.empty() && !others.eos.empty() &&
            std::ranges::count(generation.eos.empty() ? ids.eos : generation.eos,
                               others.eos.front()) == 0) {
            note(
                "{}: eos_token of the tokenizer has the id {}, but the checkpoint states {}, which "
                "config.json gets",
                request_.out, others.eos.front(), ids.eos.front());
        }
        add_missing(ids, others);
        add_missing(generation, ids);
        report_.end_of_document = ids.eos.empty() ? -1 : ids.eos.front();
        io::write_file(directory + "/config.json",
                       io::json_text(hf_config(hf_, model, ids, dtype_)), io::Overwrite::no);
        io::write_file(directory + "/generation_config.json",
                       io::json_text(hf_generation_config(generation, ids)), io::Overwrite::no);
    }

    static std::vector<i64> eos_of(i64 end_of_document) {
        return end_of_document < 0 ? std::vector<i64>() : std::vector{end_of_document};
    }

    // Returns the directory of the tokenizer that the export copies; an empty path: none.
    std::string tokenizer_place() const {
        if (!request_.tokenizer.empty()) return request_.tokenizer;
        return checkpoint_.manifest().tokenizer.files.empty() ? "" : checkpoint_.path();
    }

    // Returns the special ids of the tokenizer that write_tokenizer() writes.
    ckpt::SpecialIds ids_of_tokenizer(const spec::ModelConfig& model) const {
        const std::string from = tokenizer_place();
        if (from.empty()) {
            if (model.vocab_size != gpt2_vocabulary) return {};
            return {{gpt2_vocabulary - 1}, gpt2_vocabulary - 1, {}};
        }
        const text::TokenizerIds found = tokenizer_ids(from);
        const auto in_model = [&](const std::optional<i64>& id) {
            return id && *id < model.vocab_size ? id : std::nullopt;
        };
        const auto eos = in_model(found.eos);
        return {eos_of(eos.value_or(-1)), in_model(found.bos), in_model(found.pad)};
    }

    void write_tokenizer(const std::string& directory, const spec::ModelConfig& model) {
        report_.has_tokenizer = true;
        if (!request_.tokenizer.empty()) {
            copy_tokenizer(request_.tokenizer, directory);
        } else if (const auto& stored = checkpoint_.manifest().tokenizer.files; !stored.empty()) {
            convert::write_tokenizer(ckpt::read_tokenizer_files(checkpoint_.path(), stored),
                                     report_.end_of_document, model.max_positions, directory);
        } else if (model.vocab_size == gpt2_vocabulary) {
            write_gpt2_tokenizer(directory, model.max_positions);
        } else {
            report_.has_tokenizer = false;
        }
    }

    const ConversionRequest& request_;
    const HfClass& hf_;
    const ckpt::Checkpoint& checkpoint_;
    DType dtype_ = DType::fp32;
    ckpt::SliceKind kind_ = ckpt::SliceKind::weight;
    std::vector<SizedName> sizes_;  // in the order of PyTorch's state_dict
    std::map<std::string, MappedTensor> tensors_;
    i64 n_written_ = 0;
    ConversionReport report_;
};

}  // namespace

const HfClass& choose_hf_class(const std::string& path) {
    return choose_class(ckpt::open(path).manifest().model);
}

ConversionReport to_hf(const ConversionRequest& request, const HfClass& hf) {
    const ckpt::Checkpoint checkpoint = ckpt::open(request.in);
    return Exporter(request, hf, checkpoint).run();
}

}  // namespace lm::convert
