// SPDX-License-Identifier: Apache-2.0
// config.json in the spellings of several versions of transformers, and the models that classes
// can read and write.
#include "convert/hf/config_json.hpp"

#include <fmt/format.h>

#include "../ckpt/support.hpp"
#include "ckpt/format/model_json.hpp"
#include "convert/hf/fits.hpp"
#include "convert/hf/rope_json.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::convert;
using spec::Activation;

namespace {

// Returns the model of a config.json with the keys of `text` in addition to those that every class
// needs.
spec::ModelConfig model_of(const std::string& model_type, const std::string& text) {
    const std::string common = model_type.starts_with("gpt2") || model_type == "gpt_bigcode"
                                   ? R"("n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64)"
                               : model_type == "bloom"
                                   ? R"("hidden_size": 16, "n_layer": 1, "n_head": 2)"
                                   : R"("hidden_size": 16, "num_hidden_layers": 1,
                                        "num_attention_heads": 2, "num_key_value_heads": 2,
                                        "intermediate_size": 32, "max_position_embeddings": 64)";
    return hf_model(fmt::format(R"({{"model_type": "{}", "vocab_size": 9, {} {} {}}})", model_type,
                                common, text.empty() ? "" : ",", text),
                    "config.json")
        .config;
}

}  // namespace

TEST_CASE("a GPT-NeoX without the key has a parallel residual") {
    CHECK(model_of("gpt_neox", "").parallel_residual);
    CHECK(model_of("gpt_neox", R"("use_parallel_residual": true)").parallel_residual);
    CHECK_FALSE(model_of("gpt_neox", R"("use_parallel_residual": false)").parallel_residual);
}

TEST_CASE("rotary settings are read in the spellings of transformers 4 and 5") {
    const auto neox = model_of("gpt_neox", R"("rope_parameters": {"rope_type": "default",
        "rope_theta": 500.0, "partial_rotary_factor": 0.5})");
    CHECK(neox.rotary_base == 500);
    CHECK(neox.rotary_percent == 0.5);
    const auto old = model_of("gpt_neox", R"("rotary_emb_base": 500, "rotary_pct": 0.5)");
    CHECK(ckpt::to_json(neox) == ckpt::to_json(old));
    for (const char* key : {"rope_type", "type"}) {
        const auto llama =
            model_of("llama", fmt::format(R"("rope_theta": 700, "rope_scaling": {{"{}": "llama3",
                "factor": 4, "low_freq_factor": 1, "high_freq_factor": 4,
                "original_max_position_embeddings": 8192}})",
                                          key));
        CHECK(llama.rope_scaling.factor == 4);
        CHECK(llama.rope_scaling.original_length == 8192);
        CHECK(llama.rotary_base == 700);
    }
    for (const HfClass* hf : hf_classes()) {
        if (hf->position != spec::PositionEmbedding::rope) continue;
        if (!hf->absent_rope.empty()) continue;  // no object means other settings
        const std::string type(hf->model_type);
        INFO(type);
        const auto plain = ckpt::to_json(model_of(type, ""));
        CHECK(ckpt::to_json(model_of(type, R"("rope_scaling": null)")) == plain);
        for (const char* text : {R"({"rope_type": "default"})", R"({"type": "default"})",
                                 R"({"type": "linear", "factor": 1.0})"}) {
            CHECK(ckpt::to_json(model_of(type, std::string("\"rope_scaling\": ") + text)) == plain);
            CHECK(ckpt::to_json(model_of(type, std::string("\"rope_parameters\": ") + text)) ==
                  plain);
        }
        CHECK_THAT(
            test::error_of(
                [&] { model_of(type, R"("rope_scaling": {"type": "dynamic", "factor": 2})"); },
                Exit::usage),
            ContainsSubstring("'dynamic'"));
    }
}

TEST_CASE("rope_scaling replaces the whole of rope_parameters, as in transformers") {
    const auto model = model_of("llama", R"("rope_theta": 100000.0, "rope_scaling": {"rope_type":
        "default"}, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0})");
    CHECK(model.rotary_base == 100000);
    CHECK(model_of("llama", R"("rope_scaling": {}, "rope_parameters": {"rope_theta": 500.0})")
              .rotary_base == 500);
    // The length of the original model, from the object, the file, or the context.
    constexpr auto scaling = R"("rope_scaling": {"rope_type": "llama3", "factor": 4,
        "low_freq_factor": 1, "high_freq_factor": 4})";
    CHECK(model_of("llama", fmt::format(R"({}, "original_max_position_embeddings": 32)", scaling))
              .rope_scaling.original_length == 32);
    CHECK(model_of("llama", scaling).rope_scaling.original_length == 64);
}

TEST_CASE("rules of rotary frequencies, with the defaults of transformers") {
    const auto scaling_of = [](const std::string& object) {
        return model_of("mistral", R"("sliding_window": null, "rope_parameters": )" + object)
            .rope_scaling;
    };
    const auto refused = [&](const std::string& object) {
        return test::error_of([&] { scaling_of(object); }, Exit::usage);
    };
    CHECK(scaling_of(R"({"rope_type": "linear", "factor": 2})").factor == 2);
    const spec::RotaryScaling yarn =
        scaling_of(R"({"rope_type": "yarn", "original_max_position_embeddings": 16,
                       "beta_fast": null, "mscale": 1.0, "mscale_all_dim": 0})");
    spec::RotaryScaling expected = spec::usual_scaling(spec::RotaryRule::yarn);
    expected.factor = 4;  // 64 / 16
    expected.original_length = 16;
    CHECK(yarn == expected);
    expected.mscale = 2;
    expected.mscale_all_dim = 0.5;
    expected.truncate = false;
    expected.beta_slow = 3;
    CHECK(scaling_of(R"({"type": "yarn", "factor": 4, "original_max_position_embeddings": 16,
                         "beta_slow": 3, "mscale": 2, "mscale_all_dim": 0.5, "truncate": false})") ==
          expected);
    // One of the two without the other has no effect.
    CHECK(attention_factor(scaling_of(R"({"rope_type": "yarn", "factor": 4, "mscale": 2})")) ==
          attention_factor(scaling_of(R"({"rope_type": "yarn", "factor": 4})")));
    CHECK_THAT(refused(R"({"rope_type": "longrope", "factor": 4})"), ContainsSubstring("longrope"));
    CHECK_THAT(refused(R"({"rope_type": "llama3", "factor": 4, "low_freq_factor": 1})"),
               ContainsSubstring("high_freq_factor"));
    CHECK_THAT(refused(R"({"rope_type": "yarn", "original_max_position_embeddings": 0})"),
               ContainsSubstring("original"));
    CHECK_THAT(refused(R"({"full_attention": {}, "sliding_attention": {}})"),
               ContainsSubstring("full_attention"));
}

TEST_CASE("LongRoPE in the spellings of Phi-3") {
    const auto scaling_of = [](const std::string& text) {
        return model_of("phi3", text).rope_scaling;
    };
    const std::string factors = R"("short_factor": [1, 1.5, 2, 3], "long_factor": [4, 5, 6, 7])";
    spec::RotaryScaling expected{.rule = spec::RotaryRule::longrope,
                                 .factor = 4,
                                 .original_length = 16,
                                 .short_factors = {1, 1.5, 2, 3},
                                 .long_factors = {4, 5, 6, 7}};
    for (const char* type : {"longrope", "su", "yarn"}) {
        CHECK(scaling_of(fmt::format(R"("rope_scaling": {{"type": "{}", {}}},
                                        "original_max_position_embeddings": 16)",
                                     type, factors)) == expected);
    }
    // The original context of the class, not that of the object.
    expected.original_length = 4096;
    expected.factor = 64.0 / 4096;
    expected.attention_factor = 1.5;
    CHECK(scaling_of(fmt::format(R"("rope_parameters": {{"rope_type": "longrope", {},
        "attention_factor": 1.5, "original_max_position_embeddings": 16}})",
                                 factors)) == expected);
    CHECK_THAT(test::error_of(
                   [&] {
                       scaling_of(R"("rope_scaling": {"type": "longrope", "short_factor": [1, 2],
                                     "long_factor": [1, 2]})");
                   },
                   Exit::usage),
               ContainsSubstring("--rope-short-factor"));
}

TEST_CASE("Ministral 3 without rope_parameters has those of its class") {
    const spec::ModelConfig model = model_of("ministral3", "");
    CHECK(model.rotary_base == 1e6);
    CHECK(model.query_beta == 0.1);
    CHECK(model.rope_scaling.original_length == 16384);
    CHECK(attention_factor(model.rope_scaling) == 1);
    CHECK(model.head_dim == 128);
    CHECK(model_of("ministral3", R"("rope_parameters": {"rope_type": "default",
        "llama_4_scaling_beta": 0})")
              .query_beta == 0);
}

namespace {

// A class whose layers with a window have frequencies of their own.
HfClass class_with_two_bases() {
    HfClass hf = *hf_class_of_type("ministral");
    hf.absent_local_base = 1e4;
    hf.local_base_key = "rope_local_base_freq";
    return hf;
}

spec::ModelConfig read_two_bases(const std::string& text) {
    spec::ModelConfig config;
    config.max_positions = 64;
    config.rotary_base = 500;
    read_rope(class_with_two_bases(), io::parse_json(text, "config.json"), config, "config.json");
    return config;
}

}  // namespace

TEST_CASE("rope_parameters of two kinds of layers") {
    const spec::ModelConfig old = read_two_bases(
        R"({"rope_local_base_freq": 100, "rope_scaling": {"rope_type": "linear", "factor": 8}})");
    CHECK(old.rotary_base == 500);
    CHECK(old.rotary_local_base == 100);
    CHECK(old.rope_scaling.factor == 8);
    CHECK(read_two_bases("{}").rotary_local_base == 1e4);
    spec::ModelConfig config = read_two_bases(R"({"rope_parameters": {
        "full_attention": {"rope_type": "yarn", "rope_theta": 700, "factor": 8,
                           "attention_factor": 1.2, "truncate": false},
        "sliding_attention": {"rope_type": "default", "rope_theta": 300}}})");
    CHECK(config.rotary_base == 700);
    CHECK(config.rotary_local_base == 300);
    CHECK(config.rope_scaling.attention_factor == 1.2);
    CHECK(config.rope_scaling.truncate);  // not read in there
    io::Json written;
    write_rope(class_with_two_bases(), config, written);
    const spec::ModelConfig again = read_two_bases(written.dump());
    CHECK(again.rotary_base == 700);
    CHECK(again.rotary_local_base == 300);
    CHECK(again.rope_scaling == config.rope_scaling);
    CHECK_THAT(test::error_of(
                   [] {
                       read_two_bases(R"({"rope_parameters": {"sliding_attention":
                           {"rope_type": "linear", "factor": 2}}})");
                   },
                   Exit::usage),
               ContainsSubstring("sliding_attention"));
    // Such a class has unscaled frequencies in the layers with a window.
    spec::ModelConfig model = model_of("ministral", R"("sliding_window": 4)");
    CHECK_FALSE(inexpressible(class_with_two_bases(), model));
    model.rope_scaling = config.rope_scaling;
    CHECK(inexpressible(class_with_two_bases(), model)->flag == "--rope-local-base-freq");
    model.rotary_local_base = 300;
    CHECK_FALSE(inexpressible(class_with_two_bases(), model));
    CHECK(inexpressible(*hf_class_of_type("ministral"), model)->flag == "--rope-local-base-freq");
}

TEST_CASE("windows that leave out no position are none, those of Starcoder2 are read") {
    for (const char* type : {"qwen2", "qwen3"}) {
        INFO(type);
        const auto plain = ckpt::to_json(model_of(type, ""));
        for (const char* text :
             {R"("use_sliding_window": null)",
              R"("use_sliding_window": true, "sliding_window": 4, "max_window_layers": 28)",
              R"("use_sliding_window": true, "sliding_window": 100000, "max_window_layers": 0)",
              R"("use_sliding_window": true, "sliding_window": null)",
              R"("use_sliding_window": true)",
              R"("use_sliding_window": true, "sliding_window": 4, "max_window_layers": 0,
                 "layer_types": ["full_attention"])"}) {
            INFO(text);
            CHECK(ckpt::to_json(model_of(type, text)) == plain);
        }
        for (const char* text :
             {R"("use_sliding_window": true, "sliding_window": 4, "max_window_layers": 0)",
              R"("use_sliding_window": true, "sliding_window": 4, "max_window_layers": 28,
                 "layer_types": ["sliding_attention"])"}) {
            INFO(text);
            CHECK(model_of(type, text).window == 4);
            CHECK(model_of(type, text).full_layers.empty());
        }
        for (const char* text :
             {R"("use_sliding_window": true, "sliding_window": 4, "layer_types": ["x"])",
              R"("use_sliding_window": true, "sliding_window": 4, "layer_types": [])"}) {
            INFO(text);
            CHECK_THAT(test::error_of([&] { model_of(type, text); }, Exit::usage),
                       ContainsSubstring("layer_types"));
        }
    }
    CHECK(model_of("starcoder2", "").window == 0);
    CHECK(model_of("starcoder2", R"("sliding_window": null)").window == 0);
    CHECK(model_of("starcoder2", R"("sliding_window": 4)").window == 4);
}

TEST_CASE("windows and positions of single layers, with the defaults of transformers") {
    const std::string five = R"("num_hidden_layers": 5, "sliding_window": 4, )";
    const auto qwen =
        model_of("qwen3", five + R"("use_sliding_window": true, "max_window_layers": 3)");
    CHECK(qwen.window == 4);
    CHECK(qwen.full_layers.chosen == std::vector<bool>{true, true, true, false, false});
    CHECK(model_of("ministral", five + R"("head_dim": 8)").full_layers.empty());
    const auto smollm3 = model_of("smollm3", five + R"("use_sliding_window": true)");
    CHECK(smollm3.unrotated_layers.every == 4);
    CHECK(smollm3.full_layers.chosen == std::vector<bool>{true, true, true, false, true});
    const auto listed = model_of("smollm3", five + R"("no_rope_layers": [1, 0, 1, 0, 1])");
    CHECK(listed.unrotated_layers.every == 2);
    CHECK(listed.window == 0);
}

TEST_CASE("all names of an activation are read") {
    CHECK(model_of("llama", R"("hidden_act": "swish")").activation == Activation::swiglu);
    CHECK(model_of("qwen3", R"("hidden_act": "gelu_python")").activation == Activation::geglu);
    CHECK(model_of("gpt2", R"("activation_function": "gelu_accurate")").activation ==
          Activation::gelu_tanh);
    CHECK(model_of("nemotron", R"("hidden_act": "gelu")").activation == Activation::gelu_erf);
    CHECK(model_of("nemotron", "").activation == Activation::squared_relu);
    CHECK(model_of("starcoder2", "").activation == Activation::gelu_tanh);
    CHECK_THAT(test::error_of([] { model_of("llama", R"("hidden_act": "relu2")"); }, Exit::usage),
               ContainsSubstring("hidden_act"));
}

TEST_CASE("Qwen3 without head_dim has heads of 128, as in transformers") {
    CHECK(model_of("qwen3", "").head_dim == 128);
    CHECK(model_of("qwen3", R"("head_dim": 24)").head_dim == 24);
    CHECK(model_of("llama", R"("head_dim": null)").head_dim == 8);
}

TEST_CASE("the other names of GPT-2's keys are read, and win") {
    const char* others = R"({"model_type": "gpt2", "vocab_size": 9, "hidden_size": 24, "n_embd": 16,
        "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 5})";
    const spec::ModelConfig config = hf_model(others, "config.json").config;
    CHECK(config.hidden == 24);
    CHECK(config.n_layers == 3);
    CHECK(config.n_heads == 4);
    CHECK(config.max_positions == 5);
}

TEST_CASE("numbers that JSON does not have are accepted in keys that are not read") {
    const auto plain = ckpt::to_json(model_of("llama", ""));
    CHECK(ckpt::to_json(model_of("llama", R"("a": Infinity, "b": [-Infinity, NaN],
        "c": "NaN \" Infinity")")) == plain);
    CHECK_THAT(
        test::error_of([] { model_of("llama", R"("rope_theta": Infinity)"); }, Exit::failure),
        ContainsSubstring("rope_theta"));
}

TEST_CASE("what a class writes, it reads") {
    for (const HfClass* hf : hf_classes()) {
        INFO(hf->name);
        spec::ModelConfig config = model_of(std::string(hf->model_type), "");
        for (const auto& entry : hf->activations) {
            config.activation = entry.value;
            config.untied_head = !config.untied_head;
            CHECK_FALSE(misfit(*hf, config));
            const std::string text = hf_config(*hf, config, {.eos = {3}}, DType::bf16).dump();
            const HfModel read = hf_model(text, "config.json");
            CHECK(read.hf_class == hf);
            CHECK(read.tokenizer.end_of_document == 3);
            CHECK(ckpt::to_json(read.config) == ckpt::to_json(config));
        }
    }
}
