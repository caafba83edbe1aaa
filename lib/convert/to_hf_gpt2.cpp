// SPDX-License-Identifier: Apache-2.0
#include "convert/to_hf_gpt2.hpp"

#include <map>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "ckpt/checkpoint.hpp"
#include "ckpt/geometry.hpp"
#include "ckpt/index.hpp"
#include "ckpt/steps.hpp"
#include "convert/gpt2_map.hpp"
#include "convert/hf_files.hpp"
#include "convert/transpose.hpp"
#include "io/atomic.hpp"

namespace lm::convert {
namespace {

constexpr i64 gpt2_vocabulary = 50257;

using Bytes = std::vector<std::byte>;

// Writes a directory that AutoModelForCausalLM.from_pretrained() loads.
class Exporter {
  public:
    Exporter(const ConversionRequest& request, ckpt::Checkpoint checkpoint)
        : request_(request), checkpoint_(std::move(checkpoint)) {
        const DType stored = checkpoint_.manifest().tensors.at(0).dtype;
        dtype_ = request.dtype.value_or(stored);
        // Converts from the masters, which are more exact, unless the stored type is requested.
        kind_ = dtype_ == stored ? ckpt::SliceKind::weight : ckpt::SliceKind::master;
    }

    ConversionReport run() {
        const spec::ModelConfig& model = checkpoint_.manifest().model;
        check_fits_gpt2(model);
        for (Gpt2Tensor& tensor : gpt2_tensors(model.n_layers)) add(std::move(tensor));
        io::AtomicDirectory out = make_output(request_.out, {request_.in}, request_.force);
        write_weights(out.path());
        write_json(out.path(), model);
        write_tokenizer(out.path(), model);
        if (request_.check) request_.check(out.path());
        out.commit();
        return report_;
    }

  private:
    void add(Gpt2Tensor tensor) {
        i64 n_elements = 0;
        for (const std::string& part : tensor.parts) n_elements += shape_of(part).numel();
        const i64 bytes = n_elements * size_of(dtype_);
        sizes_.push_back({tensor.name, bytes});
        report_.n_bytes += bytes;
        ++report_.n_tensors;
        tensors_.emplace(tensor.name, std::move(tensor));
    }

    const Shape& shape_of(const std::string& name) const {
        const ckpt::TensorInfo* info = checkpoint_.find(name);
        if (!info) run_error(checkpoint_.path(), "has no tensor {}", name);
        return info->shape;
    }

    std::vector<i64> shape_of(const Gpt2Tensor& tensor) const {
        i64 rows = 0;
        for (const std::string& part : tensor.parts) rows += shape_of(part)[0];
        const Shape& first = shape_of(tensor.parts[0]);
        if (first.rank() == 1) return {rows};
        return tensor.transposed ? std::vector{first[1], rows} : std::vector{rows, first[1]};
    }

    void load(const std::string& name, std::byte* to) const {
        const ckpt::Region all = ckpt::whole(shape_of(name));
        checkpoint_.load(name, kind_,
                         {.box = all.box,
                          .flat_begin = 0,
                          .flat_end = all.flat_end,
                          .dtype = dtype_,
                          .data = to});
    }

    Bytes data_of(const Gpt2Tensor& tensor) const {
        i64 n_rows = 0;
        for (const std::string& part : tensor.parts) n_rows += shape_of(part)[0];
        const Shape& first = shape_of(tensor.parts[0]);
        const i64 cols = first.rank() == 2 ? first[1] : 1;
        const i64 size = size_of(dtype_);
        Bytes bytes(static_cast<size_t>(n_rows * cols * size));
        Bytes part_bytes;
        i64 row = 0;
        for (const std::string& part : tensor.parts) {
            const i64 rows = shape_of(part)[0];
            if (tensor.transposed) {
                part_bytes.resize(static_cast<size_t>(rows * cols * size));
                load(part, part_bytes.data());
                put_transposed(part_bytes, rows, cols, bytes.data() + row * size, n_rows);
            } else {
                load(part, bytes.data() + row * cols * size);
            }
            row += rows;
        }
        return bytes;
    }

    void put_transposed(const Bytes& from, i64 rows, i64 cols, std::byte* to, i64 stride) const {
        if (size_of(dtype_) == 4) {
            transpose(reinterpret_cast<const u32*>(from.data()), rows, cols,
                      reinterpret_cast<u32*>(to), stride);
        } else {
            transpose(reinterpret_cast<const u16*>(from.data()), rows, cols,
                      reinterpret_cast<u16*>(to), stride);
        }
    }

    void write_shard(const std::string& path, const std::vector<std::string>& names) {
        std::vector<ckpt::SafetensorsEntry> entries;
        for (const std::string& name : names) {
            entries.push_back({name, std::string(ckpt::safetensors_name(dtype_)),
                               shape_of(tensors_.at(name)), 0, 0});
        }
        auto writer = ckpt::SafetensorsWriter::create(path, std::move(entries), {{"format", "pt"}});
        for (const ckpt::SafetensorsEntry& entry : writer.entries()) {
            writer.append(data_of(tensors_.at(entry.name)));
            n_written_ += entry.end - entry.begin;
            if (request_.progress) request_.progress(n_written_);
        }
        writer.commit();
    }

    void write_weights(const std::string& directory) {
        const auto shards = plan_shards(sizes_, request_.max_shard_bytes);
        const auto n_shards = static_cast<i64>(shards.size());
        for (i64 shard = 0; shard < n_shards; ++shard) {
            write_shard(directory + "/" + shard_name(shard, n_shards),
                        shards[static_cast<size_t>(shard)]);
        }
        if (n_shards == 1) return;
        io::write_file(directory + "/model.safetensors.index.json",
                       index_json(shards, report_.n_bytes), io::Overwrite::no);
    }

    void write_json(const std::string& directory, const spec::ModelConfig& model) {
        i64 eod = checkpoint_.manifest().tokenizer.end_of_document;
        if (eod < 0 && model.vocab_size == gpt2_vocabulary) eod = gpt2_vocabulary - 1;
        report_.end_of_document = eod;
        io::write_file(directory + "/config.json", io::json_text(gpt2_config(model, eod, dtype_)),
                       io::Overwrite::no);
        io::write_file(directory + "/generation_config.json",
                       io::json_text(gpt2_generation_config(eod)), io::Overwrite::no);
    }

    void write_tokenizer(const std::string& directory, const spec::ModelConfig& model) {
        report_.has_tokenizer = true;
        if (!request_.tokenizer.empty()) {
            copy_tokenizer(request_.tokenizer, directory);
        } else if (model.vocab_size == gpt2_vocabulary) {
            write_gpt2_tokenizer(directory, model.max_positions);
        } else {
            report_.has_tokenizer = false;
        }
    }

    const ConversionRequest& request_;
    ckpt::Checkpoint checkpoint_;
    DType dtype_ = DType::fp32;
    ckpt::SliceKind kind_ = ckpt::SliceKind::weight;
    std::vector<SizedName> sizes_;  // in the order of PyTorch's state_dict
    std::map<std::string, Gpt2Tensor> tensors_;
    i64 n_written_ = 0;
    ConversionReport report_;
};

}  // namespace

ConversionReport to_hf_gpt2(const ConversionRequest& request) {
    return Exporter(request, ckpt::open(request.in)).run();
}

}  // namespace lm::convert
