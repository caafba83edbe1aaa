// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/model_json.hpp"

#include "base/error.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;
using namespace lm::spec;

namespace {

ModelConfig written_and_read(const ModelConfig& model) {
    return model_from_json(io::Json::parse(to_json(model).dump()), "manifest.json");
}

// A configuration that model_from_json() accepts.
ModelConfig valid_model() {
    ModelConfig model{.n_layers = 1, .hidden = 8, .n_heads = 2, .seq_length = 4, .vocab_size = 16};
    model.resolve();
    return model;
}

}  // namespace

TEST_CASE("a manifest keeps every kind of position, norm and activation") {
    ModelConfig model = valid_model();
    for (const auto& [value, name] : position_embeddings) {
        model.position = value;
        CHECK(to_json(model)["position_embedding_type"] == name);
        CHECK(written_and_read(model).position == value);
    }
    for (const auto& [value, name] : normalizations) {
        model.normalization = value;
        CHECK(to_json(model)["normalization"] == name);
        CHECK(written_and_read(model).normalization == value);
    }
    for (const auto& [value, name] : activations) {
        model.activation = value;
        CHECK(to_json(model)["activation"] == name);
        CHECK(written_and_read(model).activation == value);
    }
}

TEST_CASE("a manifest keeps what later versions added, and omits its defaults") {
    CHECK_FALSE(to_json(ModelConfig{}).contains("rotary_percent"));
    CHECK(to_json(ModelConfig{}, true)["rotary_percent"] == 1.0);
    ModelConfig model = valid_model();
    model.rotary_percent = 0.25;
    model.rotary_interleaved = true;
    model.rope_scaling = spec::usual_scaling(spec::RotaryRule::yarn);
    model.rope_scaling.mscale = 0.5;
    model.window = 4096;
    model.norm_1p = true;
    model.qk_norm = true;
    model.qkv_bias = true;
    model.parallel_residual = true;
    model.resolve();
    const ModelConfig read = written_and_read(model);
    CHECK(to_json(read) == to_json(model));
    CHECK(to_json(read) != to_json(ModelConfig{}));
    CHECK(read.rotary_percent == 0.25);
    CHECK(read.rope_scaling == model.rope_scaling);
    CHECK(read.window == 4096);
}

TEST_CASE("the scaling of earlier versions is that of Llama 3.1") {
    io::OrderedJson json = to_json(valid_model());
    json["rope_scaling_factor"] = 16;
    spec::RotaryScaling expected = spec::usual_scaling(spec::RotaryRule::llama3);
    expected.factor = 16;
    CHECK(ckpt::model_from_json(io::parse_json(json.dump(), "m"), "m").rope_scaling == expected);
}

TEST_CASE("a manifest with an unknown kind is refused") {
    for (const char* name : {"spiral", ""}) {
        io::OrderedJson json = to_json(ModelConfig{});
        json["position_embedding_type"] = name;
        CHECK_THROWS_WITH(model_from_json(io::Json::parse(json.dump()), "m/manifest.json"),
                          HasInOrder("m/manifest.json: ", "'position_embedding_type' "));
    }
    io::OrderedJson json = to_json(ModelConfig{});
    json["activation"] = "none";  // no activation of a model
    CHECK_THROWS_AS(model_from_json(io::Json::parse(json.dump()), "m/manifest.json"), Error);
}
