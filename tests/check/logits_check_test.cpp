// SPDX-License-Identifier: Apache-2.0
#include "check/logits_check.hpp"

#include "../ckpt/support.hpp"
#include "../support/odd_models.hpp"
#include "../support/temp_dir.hpp"
#include "base/error.hpp"
#include "check/check_tokens.hpp"
#include "convert/hf/to_hf.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"

using namespace lm;

namespace {

// Saves a step with weights in [-0.5, 0.5), which no activation function saturates.
void save(const std::string& directory, const spec::ModelConfig& model, i64 salt) {
    const ckpt::Generation generation = ckpt::claim(directory);
    const ckpt::SaveInfo info = test::info_of(model, 3);
    const std::string temporary = ckpt::begin_save(generation, 3);
    test::Buffers buffers(model, {}, 0, 0);
    buffers.fill(model, salt);
    for (float& weight : buffers.of(ckpt::SliceKind::weight)) weight *= 0.005F;
    ckpt::commit_save(generation, info, {ckpt::write_part(temporary, info, 0, buffers.pieces())});
}

// Saves a GPT-2 with a vocabulary of bytes, and writes it as a Hugging Face model.
void make_models(const test::ScratchDirectory& scratch) {
    spec::ModelConfig model = test::odd_model(2);
    model.vocab_size = 257;
    model.resolve();
    save(scratch / "native", model, 5);
    save(scratch / "other", model, 6);
    convert::ConversionRequest request;
    request.in = scratch / "native";
    request.out = scratch / "hf";
    convert::to_hf(request, *convert::hf_class_of_type("gpt2"));
}

void replace(const std::string& path, const std::string& from, const std::string& to) {
    std::string text = io::read_file(path);
    const size_t at = text.find(from);
    REQUIRE(at != text.npos);
    io::write_file(path, text.replace(at, from.size(), to), io::Overwrite::yes);
}

// Writes a shell script that takes the place of Python with library_logits.py. Returns its path.
std::string fake_python(const std::string& path, const std::string& body) {
    io::write_file(path, "#!/bin/sh\n" + body + "\n", io::Overwrite::yes);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
}

}  // namespace

TEST_CASE("a converted model has the same logits, another model has not") {
    const test::ScratchDirectory scratch;
    make_models(scratch);
    const check::Comparison same = check::compare_with_hf(scratch / "native", scratch / "hf", {});
    CHECK(same.rms > 0);
    CHECK(same.largest <= 1e-4 * same.rms);
    CHECK(same.our_perplexity == Approx(same.their_perplexity));
    CHECK(same.tokens == "7 tokens of English text");
    CHECK(check::check_import(scratch / "native", {}).perplexity == same.our_perplexity);
    CHECK_THROWS_WITH(check::compare_with_hf(scratch / "other", scratch / "hf", {}),
                      HasInOrder("logits", scratch / "hf"));
}

TEST_CASE("models with the settings of newer flags have the logits of their classes") {
    spec::ModelConfig scaled = test::llama_model(2, 6, 2);
    scaled.rope_scaling = spec::usual_scaling(spec::RotaryRule::llama3);
    scaled.rotary_base = 5e5;
    spec::ModelConfig qwen2 = test::llama_model(2, 6, 2);
    qwen2.qkv_bias = true;
    spec::ModelConfig qwen3 = test::llama_model(2, 6, 2);
    qwen3.qk_norm = true;
    spec::ModelConfig window = test::llama_model(2, 6, 2);
    window.window = 3;
    spec::ModelConfig phi3 = test::llama_model(2, 6, 2);
    phi3.rotary_percent = 0.5;
    phi3.rope_scaling = {.rule = spec::RotaryRule::longrope,
                         .factor = 2,
                         .original_length = 3,
                         .short_factors = {1.5},
                         .long_factors = {4}};
    spec::ModelConfig phi3_short = phi3;
    phi3_short.rope_scaling.original_length = 1000;
    spec::ModelConfig ministral3 = scaled;
    ministral3.rope_scaling = {.rule = spec::RotaryRule::yarn, .factor = 4, .original_length = 3};
    ministral3.query_beta = 0.5;
    spec::ModelConfig partial = test::odd_model(2);
    partial.position = spec::PositionEmbedding::rope;
    partial.rotary_percent = 0.5;
    partial.activation = spec::Activation::squared_relu;
    spec::ModelConfig stablelm = test::nemotron_model(2, 6, 2);
    stablelm.norm_1p = stablelm.qk_norm = false;
    stablelm.activation = spec::Activation::swiglu;
    spec::ModelConfig nemotron = test::nemotron_model(2, 6, 2);
    nemotron.qkv_bias = nemotron.qk_norm = false;
    for (auto& [name, model] : std::initializer_list<std::pair<const char*, spec::ModelConfig>>{
             {"llama", scaled},
             {"qwen2", qwen2},
             {"seed_oss", qwen2},
             {"ministral3", ministral3},
             {"qwen3", qwen3},
             {"mistral", window},
             {"phi3", phi3},
             {"phi3", phi3_short},
             {"gpt_neox", partial},
             {"stablelm", stablelm},
             {"gpt_neox", test::neox_model(2, 5)},
             {"nemotron", nemotron}}) {
        INFO(name);
        const test::ScratchDirectory scratch;
        spec::ModelConfig bytes = model;
        bytes.vocab_size = 257;
        bytes.resolve();
        save(scratch / "native", bytes, 5);
        convert::ConversionRequest request;
        request.in = scratch / "native";
        request.out = scratch / "hf";
        convert::to_hf(request, *convert::hf_class_of_type(name));
        const check::Comparison same =
            check::compare_with_hf(scratch / "native", scratch / "hf", {});
        CHECK(same.rms > 0);
        CHECK(same.largest <= 1e-4 * same.rms);
    }
}

TEST_CASE("a config.json of another model is named by its keys") {
    const auto message = [](const std::string& from, const std::string& to) {
        const test::ScratchDirectory scratch;
        make_models(scratch);
        replace(scratch / "hf/config.json", from, to);
        try {
            check::compare_with_hf(scratch / "native", scratch / "hf", {});
        } catch (const Error& error) {
            CHECK(error.code() == Exit::answer_is_no);
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK_THAT(message("\"gelu_new\"", "\"gelu\""),
               HasInOrder("activation_function ", "\"gelu\"", "\"gelu_new\""));
    CHECK_THAT(message("\"gelu_new\"", "\"silu\""),
               HasInOrder("activation_function: ", "gelu_new"));
    CHECK_THAT(message("1e-05", "1e-04"), HasInOrder("layer_norm_epsilon ", "0.0001", "1e-05"));
    CHECK(message("\"gelu_new\"", "\"gelu_fast\"").empty());
    CHECK(message("\"attn_pdrop\": 0.1", "\"attn_pdrop\": 0.2").empty());
}

TEST_CASE("settings that the import accepts have the same logits, whatever the export writes") {
    spec::ModelConfig wide = test::llama_model(2, 6, 2);  // its head size is not hidden / heads
    wide.hidden = 20;
    spec::ModelConfig gelu = test::nemotron_model(2, 6, 2);
    gelu.qkv_bias = gelu.qk_norm = false;
    gelu.activation = spec::Activation::gelu_tanh;
    spec::ModelConfig neox = test::odd_model(2);
    neox.position = spec::PositionEmbedding::rope;
    neox.rotary_base = 700;
    neox.rotary_percent = 0.5;
    struct Case {
        const char* name;
        spec::ModelConfig model;
        std::vector<std::pair<std::string, std::string>> replaced;
    };
    for (
        auto& [name, model, replaced] : std::vector<Case>{
            {"mistral", wide, {{"\"mistral\"", "\"llama\""}, {"\"silu\"", "\"swish\""}}},
            {"nemotron", gelu, {{"\"gelu_new\"", "\"gelu_fast\""}}},
            {"gpt_neox",
             neox,
             {{"\"rotary_emb_base\": 700", "\"b\": 1"},
              {"\"rotary_pct\": 0.5",
               R"("p": NaN, "rope_parameters": {"rope_theta": 700, "partial_rotary_factor": 0.5})"}}}}) {
        INFO(name);
        const test::ScratchDirectory scratch;
        model.vocab_size = 257;
        model.resolve();
        save(scratch / "native", model, 5);
        convert::ConversionRequest request;
        request.in = scratch / "native";
        request.out = scratch / "hf";
        convert::to_hf(request, *convert::hf_class_of_type(name));
        for (const auto& [from, to] : replaced) replace(scratch / "hf/config.json", from, to);
        const check::Comparison same =
            check::compare_with_hf(scratch / "native", scratch / "hf", {});
        CHECK(same.largest <= 1e-4 * same.rms);
    }
}

TEST_CASE("a tokenizer that is not supported does not fail a check") {
    const test::ScratchDirectory scratch;
    spec::ModelConfig model = test::odd_model(2);
    for (const char* text : {"{}", "no JSON", R"({"model": {"type": "Unigram"}})"}) {
        io::write_file(scratch / "tokenizer.json", text, io::Overwrite::yes);
        const check::CheckTokens random = check::check_tokens(model, {scratch.path()});
        CHECK(random.what.starts_with("7 random tokens ("));
        CHECK_THAT(random.what, ContainsSubstring("tokenizer.json"));
    }
}

TEST_CASE("the tokens of a check") {
    spec::ModelConfig model = test::odd_model(2);
    model.max_positions = 40;
    const check::CheckTokens random = check::check_tokens(model, {"/nonexistent", ""});
    CHECK(random.what == "40 random tokens (no tokenizer of the model was found)");
    CHECK(random.ids == check::check_tokens(model, {}).ids);
    for (const i32 id : random.ids) CHECK((id >= 0 && id < model.vocab_size));
    model.vocab_size = 50257;
    model.max_positions = 2048;
    const check::CheckTokens text = check::check_tokens(model, {});
    CHECK(text.what == fmt::format("{} tokens of English text", text.ids.size()));
    CHECK(text.ids.size() > 64);
}

TEST_CASE("a library's logits are read, and its failures are named") {
    const test::TempDir dir;
    const std::vector<i32> tokens{1, 2};
    const auto run = [&](const std::string& body) {
        return check::library_logits({fake_python(dir / "python", body), "transformers", "m"},
                                     tokens, 3);
    };
    const auto zeros = [](int n) { return fmt::format("head -c {} /dev/zero", 4 * n); };
    const check::LibraryLogits good = run("echo \"$2 9.9 $4 $5\"; " + zeros(6));
    CHECK(good.library == "transformers 9.9 3 1,2");
    CHECK(good.logits == std::vector<double>(6, 0.0));
    CHECK_THROWS_WITH(run("echo x; " + zeros(5)), HasInOrder("24 bytes", "20"));
    CHECK_THROWS_WITH(run(zeros(0)), HasInOrder("24 bytes", "0"));
    CHECK_THROWS_WITH(run("exit 3"),
                      ContainsSubstring("--check-python") && ContainsSubstring("exit code 3"));
    CHECK_THROWS_WITH(check::library_logits({dir / "none", "transformers", "m"}, tokens, 3),
                      HasInOrder(dir / "none", "transformers"));
}
