// SPDX-License-Identifier: Apache-2.0
#include "golden.hpp"

#include <cstring>

#include "ckpt/format/manifest.hpp"
#include "ckpt/format/model_json.hpp"
#include "io/json.hpp"

namespace lm::test {
namespace {

template <typename T>
std::vector<T> typed(const SafetensorsReader& file, const std::string& entry) {
    const ckpt::SafetensorsEntry* found = file.find(entry);
    if (!found) throw std::runtime_error("golden file lacks " + entry);
    const auto bytes = file.bytes(*found);
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

struct LayerName {
    const char* name;
    device::View (*view)(const model::LayerParams&);
    bool transposed;
};

constexpr LayerName layer_names[] = {
    {"ln_1.weight", [](const model::LayerParams& p) { return p.attention_norm.weight; }, false},
    {"ln_1.bias", [](const model::LayerParams& p) { return p.attention_norm.bias; }, false},
    {"attn.c_attn.weight", [](const model::LayerParams& p) { return p.attention.qkv_weight; },
     true},
    {"attn.c_attn.bias", [](const model::LayerParams& p) { return p.attention.qkv_bias; }, false},
    {"attn.c_proj.weight", [](const model::LayerParams& p) { return p.attention.output_weight; },
     true},
    {"attn.c_proj.bias", [](const model::LayerParams& p) { return p.attention.output_bias; },
     false},
    {"ln_2.weight", [](const model::LayerParams& p) { return p.mlp_norm.weight; }, false},
    {"ln_2.bias", [](const model::LayerParams& p) { return p.mlp_norm.bias; }, false},
    {"mlp.c_fc.weight", [](const model::LayerParams& p) { return p.mlp.up_weight; }, true},
    {"mlp.c_fc.bias", [](const model::LayerParams& p) { return p.mlp.up_bias; }, false},
    {"mlp.c_proj.weight", [](const model::LayerParams& p) { return p.mlp.down_weight; }, true},
    {"mlp.c_proj.bias", [](const model::LayerParams& p) { return p.mlp.down_bias; }, false},
};

}  // namespace

Golden::Golden(const std::string& name)
    : file_(
          SafetensorsReader::open(std::string(LM_TEST_DIR) + "/golden/" + name + ".safetensors")) {}

std::vector<i64> Golden::shape(const std::string& entry) const {
    return file_.find(entry)->shape;
}

std::vector<i32> Golden::ints(const std::string& entry) const {
    return typed<i32>(file_, entry);
}

std::vector<float> Golden::floats(const std::string& entry) const {
    return typed<float>(file_, entry);
}

i64 Golden::batch_size() const {
    return shape("tokens")[1];
}

spec::ModelConfig Golden::config() const {
    std::string text;
    for (const auto& [key, value] : file_.metadata()) {
        if (key == "config") text = value;
        if (key != "model") continue;
        spec::ModelConfig ours =
            ckpt::model_from_json(io::parse_json(value, file_.path()), file_.path());
        ours.resolve();
        return ours;
    }
    const io::Json json = io::parse_json(text, file_.path());
    spec::ModelConfig config;
    config.n_layers = json.at("n_layer");
    config.hidden = json.at("n_embd");
    config.n_heads = json.at("n_head");
    config.ffn_hidden = json.at("n_inner");
    config.vocab_size = json.at("vocab_size");
    config.seq_length = json.at("n_positions");
    config.attention_dropout = 0;
    config.hidden_dropout = 0;
    config.resolve();
    return config;
}

data::Batch Golden::batch_of(const std::vector<i32>& tokens, i64 first,
                             const data::BatchOptions& options) const {
    const i64 t = config().seq_length;
    data::Batch batch(t, options);
    for (i64 row = 0; row < options.micro_batch; ++row) {
        const i32* const from = tokens.data() + (first + row) * (t + 1);
        std::copy_n(from, t, batch.tokens.data() + row * t);
        std::copy_n(from + 1, t, batch.targets.data() + row * t);
        batch.sample_ids[static_cast<size_t>(row)] = first + row;
    }
    return batch;
}

data::Batch Golden::batch(i64 step, i64 first, i64 n) const {
    return batch_of(ints("tokens"), step * batch_size() + first, {.micro_batch = n});
}

data::Batch Golden::documents(const data::BatchOptions& flags) const {
    data::Batch batch = batch_of(ints("documents.tokens"), 0, flags);
    const auto t = static_cast<size_t>(batch.seq_length);
    const auto row_of = [t](auto& values, size_t row) {
        return values.empty() ? std::span(values) : std::span(values).subspan(row * t, t);
    };
    for (size_t row = 0; row < static_cast<size_t>(batch.n_rows); ++row) {
        data::mark_documents(row_of(batch.tokens, row), *flags.eod_id, row_of(batch.positions, row),
                             row_of(batch.document_starts, row), row_of(batch.loss_mask, row));
    }
    return batch;
}

std::vector<NamedView> hugging_face_views(const model::Params& params,
                                          const spec::ModelConfig& config) {
    std::vector<NamedView> views = {{"transformer.wte.weight", params.embedding.word},
                                    {"transformer.wpe.weight", params.embedding.position},
                                    {"transformer.ln_f.weight", params.final_norm.weight},
                                    {"transformer.ln_f.bias", params.final_norm.bias}};
    for (i64 layer = 0; layer < config.n_layers; ++layer) {
        const std::string prefix = "transformer.h." + std::to_string(layer) + ".";
        for (const LayerName& name : layer_names) {
            views.push_back({prefix + name.name,
                             name.view(params.layers[static_cast<size_t>(layer)]),
                             name.transposed});
        }
    }
    return views;
}

std::vector<NamedView> table_views(const model::ParamMap& map, const device::View& flat) {
    std::vector<NamedView> views;
    for (const spec::LocalTensor& local : map.layout().tensors) {
        const device::View held = map.view_of(local, flat);
        views.push_back({map.spec_of(local).name, held.rows(0, local.box.shape()[0])});
    }
    return views;
}

std::vector<float> values_of(const NamedView& named, i64 vocab_size) {
    const float* data = named.view.as<float>();
    if (!named.transposed) {
        i64 n = named.view.numel();
        if (named.name == "transformer.wte.weight") n = vocab_size * named.view[1];
        return {data, data + n};
    }
    const i64 rows = named.view[0];
    const i64 cols = named.view[1];
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (i64 r = 0; r < rows; ++r) {
        for (i64 c = 0; c < cols; ++c)
            values[static_cast<size_t>(c * rows + r)] = data[r * cols + c];
    }
    return values;
}

void set_values(const NamedView& named, const std::vector<float>& values) {
    auto* data = named.view.as<float>();
    if (!named.transposed) {
        std::copy(values.begin(), values.end(), data);
        return;
    }
    const i64 rows = named.view[0];
    const i64 cols = named.view[1];
    for (i64 r = 0; r < rows; ++r) {
        for (i64 c = 0; c < cols; ++c)
            data[r * cols + c] = values[static_cast<size_t>(c * rows + r)];
    }
}

}  // namespace lm::test
