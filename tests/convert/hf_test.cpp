// SPDX-License-Identifier: Apache-2.0
// Conversions to and from Hugging Face, with the golden weights of GPT-2 as written by
// transformers.
#include "convert/hf/from_hf.hpp"
#include "convert/hf/to_hf.hpp"

#include <algorithm>
#include <cstring>

#include "../ckpt/support.hpp"
#include "../support/odd_models.hpp"
#include "../support/temp_dir.hpp"
#include "ckpt/format/flat_pieces.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/format/model_json.hpp"
#include "ckpt/format/safetensors.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/diff.hpp"
#include "ckpt/verbs/verify.hpp"
#include "convert/conversions.hpp"
#include "convert/formats/model_format.hpp"
#include "convert/hf/config_json.hpp"
#include "convert/hf/files.hpp"
#include "convert/hf/fits.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "support/safetensors_reader.hpp"

using namespace lm;
using namespace lm::convert;
using test::Buffers;

namespace {

const HfClass& gpt2 = *hf_class_of_type("gpt2");

const std::string golden = std::string(LM_TEST_DIR) + "/golden/gpt2_odd.safetensors";

// Writes a Hugging Face directory with the golden weights, as save_pretrained does.
void write_hf(const std::string& directory, const std::string& prefix,
              const std::vector<std::pair<std::string, std::string>>& renamed = {}) {
    io::make_directories(directory);
    const auto reader = test::SafetensorsReader::open(golden);
    std::vector<ckpt::SafetensorsEntry> entries;
    std::map<std::string, std::string> source;
    for (ckpt::SafetensorsEntry entry : reader.entries()) {
        constexpr std::string_view mark = "weight.transformer.";
        if (!entry.name.starts_with(mark)) continue;
        std::string name = prefix + entry.name.substr(mark.size());
        for (const auto& [from, to] : renamed) {
            if (name == from) name = to;
        }
        source[name] = entry.name;
        entry.name = name;
        entries.push_back(entry);
    }
    auto writer = ckpt::SafetensorsWriter::create(directory + "/model.safetensors", entries,
                                                  {{"format", "pt"}});
    for (const auto& entry : writer.entries()) {
        writer.append(reader.bytes(*reader.find(source.at(entry.name))));
    }
    writer.commit();
    test::write(directory + "/config.json",
                R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 40, "n_head": 5, "n_inner": 100,
                    "vocab_size": 77, "n_positions": 13, "activation_function": "gelu_new",
                    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "eos_token_id": 76})");
}

bool same_weights(const std::string& a, const std::string& b) {
    constexpr std::array weights{ckpt::SliceKind::weight};
    return test::same(a, b, weights);
}

}  // namespace

TEST_CASE("Hugging Face -> native: every number is in its place") {
    const test::ScratchDirectory scratch;
    write_hf(scratch / "hf", "transformer.");
    const ConversionReport report = from_hf(test::request_of(scratch / "hf", scratch / "native"));
    CHECK(report.n_tensors == 2 + 2 * 12 + 2);
    CHECK(report.end_of_document == 76);
    const ckpt::Checkpoint checkpoint = ckpt::open(scratch / "native");
    CHECK(ckpt::verify(checkpoint.path(), nullptr).problems.empty());
    const spec::ModelConfig& config = checkpoint.manifest().model;
    CHECK(config.ffn_hidden == 100);
    CHECK(config.vocab_size == 77);
    CHECK(config.head_dim == 8);
    CHECK(config.hidden_dropout == 0.0);
    CHECK(checkpoint.manifest().counters.iteration == 0);

    const auto reader = test::SafetensorsReader::open(golden);
    const auto theirs = [&](const std::string& name) {
        const auto bytes = reader.bytes(*reader.find("weight.transformer." + name));
        std::vector<float> values(bytes.size() / 4);
        std::memcpy(values.data(), bytes.data(), bytes.size());
        return values;
    };
    const auto ours = [&](const std::string& name) {
        return checkpoint.load_fp32(name, ckpt::SliceKind::weight);
    };
    CHECK(ours("embedding.word.weight") == theirs("wte.weight"));
    CHECK(ours("embedding.position.weight") == theirs("wpe.weight"));
    CHECK(ours("final_norm.bias") == theirs("ln_f.bias"));
    const auto c_attn = theirs("h.1.attn.c_attn.weight");  // [40, 120]
    const auto key = ours("layers.1.attention.key.weight");
    const auto down = ours("layers.1.mlp.down.weight");   // [40, 100]
    const auto c_proj = theirs("h.1.mlp.c_proj.weight");  // [100, 40]
    bool equal = true;
    for (size_t out = 0; out < 40; ++out) {
        for (size_t in = 0; in < 40; ++in)
            equal &= key[out * 40 + in] == c_attn[in * 120 + 40 + out];
        for (size_t in = 0; in < 100; ++in) equal &= down[out * 100 + in] == c_proj[in * 40 + out];
    }
    CHECK(equal);
    const auto bias = theirs("h.0.attn.c_attn.bias");
    CHECK(ours("layers.0.attention.value.bias") ==
          std::vector<float>(bias.begin() + 80, bias.end()));
}

TEST_CASE("Hugging Face -> native -> Hugging Face: the same file, byte for byte") {
    const test::ScratchDirectory scratch;
    write_hf(scratch / "hf", "transformer.");
    from_hf(test::request_of(scratch / "hf", scratch / "native"));
    const ConversionReport report =
        to_hf(test::request_of(scratch / "native", scratch / "again"), gpt2);
    CHECK_FALSE(report.has_tokenizer);
    CHECK(test::read(scratch / "again/model.safetensors") ==
          test::read(scratch / "hf/model.safetensors"));
    CHECK(io::list_directory(scratch / "again") ==
          std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors"});
    const io::Json config = io::read_json(scratch / "again/config.json");
    CHECK(config["activation_function"] == "gelu_new");
    CHECK(config["n_inner"] == 100);
    CHECK(config["eos_token_id"] == 76);
    CHECK(config["vocab_size"] == 77);
    CHECK(config["torch_dtype"] == "float32");
}

TEST_CASE("special ids: an import and its export keep what the files state") {
    const io::Json none = nullptr;
    const std::string tokenizer = R"({"added_tokens": [{"id": 9, "content": "<s>"},
        {"id": 11, "content": "</s>"}, {"id": 12, "content": "[PAD]"}],
        "model": {"type": "Unigram", "vocab": [["a", -1.0], ["<x>", -2.0]]}})";
    const std::string roles =
        R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": "<x>"})";
    struct Case {
        const char* config;      // keys in addition to those of the model
        const char* generation;  // generation_config.json; empty: none
        bool has_tokenizer;
        io::Json eos, bos, pad;                   // of the exported config.json
        io::Json generation_eos, generation_bos;  // of the exported generation_config.json
        i64 end_of_document;
    };
    const Case cases[] = {
        {R"("eos_token_id": [0, 5], "bos_token_id": 1, "pad_token_id": 2)",
         "",
         false,
         {0, 5},
         1,
         2,
         {0, 5},
         1,
         0},
        {R"("eos_token_id": 5, "bos_token_id": 1)",
         R"({"eos_token_id": [5, 7], "bos_token_id": 3})",
         true,
         5,
         1,
         1,
         {5, 7},
         3,
         5},
        {R"("eos_token_id": null)",
         R"({"eos_token_id": [7, 8]})",
         false,
         {7, 8},
         none,
         none,
         {7, 8},
         none,
         7},
        {R"("eos_token_id": null, "pad_token_id": -1)", "", true, 11, 9, 1, 11, 9, 11},
        {R"("eos_token_id": 6)", "", false, 6, none, none, 6, none, 6},
        {R"("eos_token_id": 77)", "{}", false, none, none, none, none, none, -1}};
    for (const Case& c : cases) {
        INFO(c.config << " " << c.generation);
        const test::ScratchDirectory scratch;
        write_hf(scratch / "hf", "transformer.");
        std::string config = test::read(scratch / "hf/config.json");
        config.replace(config.find(R"("eos_token_id": 76)"), 18, c.config);
        test::write(scratch / "hf/config.json", config);
        if (*c.generation) test::write(scratch / "hf/generation_config.json", c.generation);
        if (c.has_tokenizer) {
            test::write(scratch / "hf/tokenizer.json", tokenizer);
            test::write(scratch / "hf/tokenizer_config.json", roles);
        }
        const auto report = from_hf(test::request_of(scratch / "hf", scratch / "native"));
        CHECK(report.end_of_document == c.end_of_document);
        to_hf(test::request_of(scratch / "native", scratch / "again"), gpt2);
        const io::Json got = io::read_json(scratch / "again/config.json");
        const io::Json generation = io::read_json(scratch / "again/generation_config.json");
        CHECK(got["eos_token_id"] == c.eos);
        CHECK(got["bos_token_id"] == c.bos);
        CHECK(got.value("pad_token_id", none) == c.pad);
        CHECK(generation["eos_token_id"] == c.generation_eos);
        CHECK(generation["bos_token_id"] == c.generation_bos);
        const ckpt::Manifest manifest = ckpt::open(scratch / "native").manifest();
        CHECK_NOTHROW(check_hf_config(scratch / "again", manifest.model, manifest.tokenizer));
    }
    // A checkpoint without ids, and the tokenizer of --tokenizer.
    const test::ScratchDirectory scratch;
    write_hf(scratch / "hf", "transformer.");
    io::make_directories(scratch / "tok");
    test::write(scratch / "tok/tokenizer.json", tokenizer);
    test::write(scratch / "tok/tokenizer_config.json", roles);
    std::string config = test::read(scratch / "hf/config.json");
    config.replace(config.find("76}"), 2, "null");
    test::write(scratch / "hf/config.json", config);
    from_hf(test::request_of(scratch / "hf", scratch / "native"));
    ConversionRequest request = test::request_of(scratch / "native", scratch / "again");
    request.tokenizer = scratch / "tok";
    CHECK(to_hf(request, gpt2).end_of_document == 11);
    CHECK(io::read_json(scratch / "again/config.json")["bos_token_id"] == 9);
}

TEST_CASE("a tokenizer with more ids than the model has rows is refused") {
    // The model has 77 rows.
    const auto write_tokenizer = [](const std::string& directory, i64 largest, bool pair) {
        io::make_directories(directory);
        const std::string id = std::to_string(largest);
        if (pair) {
            test::write(directory + "/vocab.json", R"({"a": 0})");
            test::write(directory + "/merges.txt", "#version: 0.2\n");
            test::write(directory + "/added_tokens.json", R"({"<x>": )" + id + "}");
        } else {
            test::write(directory + "/tokenizer.json", R"({"model": {"vocab": {"a": 0}},
                "added_tokens": [{"id": )" + id + R"(, "content": "<x>"}]})");
        }
    };
    for (const bool pair : {false, true}) {
        const test::ScratchDirectory scratch;
        write_hf(scratch / "hf", "transformer.");
        from_hf(test::request_of(scratch / "hf", scratch / "native"));
        write_tokenizer(scratch / "small", 76, pair);
        write_tokenizer(scratch / "large", 77, pair);
        ConversionRequest request = test::request_of(scratch / "native", scratch / "out");
        request.tokenizer = scratch / "large";
        CHECK_THAT(test::error_of([&] { to_hf(request, gpt2); }),
                   HasInOrder("large/", "'<x>'", " 77", " 77 "));
        CHECK_FALSE(io::exists(scratch / "out"));
        request.tokenizer = scratch / "small";
        CHECK(to_hf(request, gpt2).has_tokenizer);
        write_tokenizer(scratch / "hf", 77, pair);
        CHECK_THAT(
            test::error_of([&] { from_hf(test::request_of(scratch / "hf", scratch / "again")); }),
            HasInOrder("hf/", "'<x>'", " 77", " 77 "));
        write_tokenizer(scratch / "hf", 76, pair);
        CHECK_NOTHROW(from_hf(test::request_of(scratch / "hf", scratch / "again")));
    }
}

TEST_CASE("additional chat templates are copied with the tokenizer of --tokenizer") {
    const test::ScratchDirectory scratch;
    write_hf(scratch / "hf", "transformer.");
    from_hf(test::request_of(scratch / "hf", scratch / "native"));
    io::make_directories(scratch / "tok/additional_chat_templates");
    test::write(scratch / "tok/tokenizer.json", "{}");
    test::write(scratch / "tok/chat_template.jinja", "a");
    test::write(scratch / "tok/additional_chat_templates/tools.jinja", "b");
    ConversionRequest request = test::request_of(scratch / "native", scratch / "out");
    request.tokenizer = scratch / "tok";
    to_hf(request, gpt2);
    CHECK(test::read(scratch / "out/chat_template.jinja") == "a");
    CHECK(test::read(scratch / "out/additional_chat_templates/tools.jinja") == "b");
}

TEST_CASE("a LoRA adapter is named with its remedy") {
    const test::ScratchDirectory scratch;
    io::make_directories(scratch / "lora");
    test::write(scratch / "lora/adapter_config.json", "{}");
    test::write(scratch / "lora/adapter_model.safetensors", "");
    CHECK_THAT(test::error_of([&] { detect_format(scratch / "lora"); }, Exit::usage),
               HasInOrder("lora", "adapter", "merge_and_unload"));
}

TEST_CASE("config.json and generation_config.json of more than 16 MiB are refused") {
    for (const char* name : {"config.json", "generation_config.json"}) {
        const test::ScratchDirectory scratch;
        write_hf(scratch / "hf", "");
        const std::string path = scratch / "hf/" + name;
        const std::string text = io::exists(path) ? test::read(path) : "{}";
        test::write(path, text + std::string(size_t{16} << 20, ' '));
        CHECK_THAT(test::error_of([&] { read_hf_model(scratch / "hf"); }),
                   HasInOrder(path + ": ", "large", "16777216"));
    }
}

TEST_CASE("check_hf_config names a special id that differs") {
    const test::ScratchDirectory scratch;
    write_hf(scratch / "hf", "transformer.");  // eos 76
    const spec::ModelConfig model = read_hf_model(scratch / "hf").config;
    const auto error = [&](const ckpt::TokenizerInfo& tokenizer) {
        return test::error_of([&] { check_hf_config(scratch / "hf", model, tokenizer); },
                              Exit::answer_is_no);
    };
    CHECK_NOTHROW(check_hf_config(scratch / "hf", model, {}));
    CHECK_NOTHROW(check_hf_config(scratch / "hf", model, {.end_of_document = 76, .digest = ""}));
    CHECK_THAT(error({.end_of_document = 9, .digest = ""}), HasInOrder("eos_token_id", "76", "9"));
    CHECK_THAT(error({76, "", {}, {.eos = {76, 5}}, {}}), HasInOrder("eos_token_id", "76", "5"));
    CHECK_NOTHROW(
        check_hf_config(scratch / "hf", model, {76, "", {}, {.eos = {76}, .bos = 4}, {}}));
}

TEST_CASE("native -> Hugging Face -> native: bitwise, in shards, without prefix, from one file") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    Buffers buffers(config, {});
    buffers.fill(config, 4);
    auto weights = ckpt::pieces_of(buffers.layout, ckpt::SliceKind::weight, DType::fp32,
                                   buffers.weight.data());
    ckpt::save(ckpt::claim(scratch / "a"), test::info_of(config, 12), weights);
    ConversionRequest request = test::request_of(scratch / "a", scratch / "hf");
    request.max_shard_bytes = 12000;
    to_hf(request, gpt2);
    const auto names = io::list_directory(scratch / "hf");
    CHECK(std::ranges::count_if(
              names, [](const std::string& name) { return name.ends_with(".safetensors"); }) > 3);
    const io::Json index = io::read_json(scratch / "hf/model.safetensors.index.json");
    CHECK(index["metadata"]["total_size"] == 4 * spec::count_parameters(config).total());
    CHECK(index["weight_map"].size() == 2 + 2 * 12 + 2);
    from_hf(test::request_of(scratch / "hf", scratch / "b"));
    CHECK(test::same(scratch / "a", scratch / "b"));
    CHECK(ckpt::to_json(ckpt::open(scratch / "b").manifest().model) == ckpt::to_json(config));

    write_hf(scratch / "plain", "");
    write_hf(scratch / "prefixed", "transformer.");
    from_hf(test::request_of(scratch / "plain/model.safetensors", scratch / "c"));
    from_hf(test::request_of(scratch / "prefixed", scratch / "d"));
    CHECK(test::same(scratch / "c", scratch / "d"));
}

TEST_CASE("tensors of several blocks, which threads convert at the same time") {
    const test::TempDir scratch;  // 270 MB
    auto config = test::small_model();
    config.n_layers = 1;
    config.hidden = 96;
    config.head_dim = 24;
    config.ffn_hidden = 45'001;  // transposed tensors of 17.3 MB
    config.vocab_size = 51'007;  // 19.6 MB
    Buffers buffers(config, {});
    buffers.fill(config, 4);
    auto weights = ckpt::pieces_of(buffers.layout, ckpt::SliceKind::weight, DType::fp32,
                                   buffers.weight.data());
    ckpt::save(ckpt::claim(scratch / "a"), test::info_of(config, 12), weights);
    for (const WeightFiles files : {WeightFiles::safetensors, WeightFiles::bin}) {
        ConversionRequest request = test::request_of(scratch / "a", scratch / "hf");
        request.files = files;
        request.force = true;
        i64 done = 0;
        i64 total = 0;
        request.progress = [&](i64 n, i64 of) {
            done = n;
            total = of;
        };
        to_hf(request, gpt2);
        CHECK(done == 4 * spec::count_parameters(config).total());
        CHECK(done == total);
        ConversionRequest back = test::request_of(scratch / "hf", scratch / "b");
        back.force = true;
        done = 0;
        back.progress = request.progress;
        from_hf(back);
        CHECK(done == total);
        CHECK(test::same(scratch / "a", scratch / "b"));
    }
}

TEST_CASE("16-bit weights are rounded once and widened exactly") {
    const test::ScratchDirectory scratch;
    write_hf(scratch / "hf", "transformer.");
    from_hf(test::request_of(scratch / "hf", scratch / "native"));
    for (const DType dtype : {DType::bf16, DType::fp16}) {
        const std::string name(lm::name_of(dtype));
        ConversionRequest request = test::request_of(scratch / "native", scratch / name);
        request.dtype = dtype;
        to_hf(request, gpt2);
        CHECK(io::read_json(scratch / name + "/config.json")["torch_dtype"] ==
              (dtype == DType::bf16 ? "bfloat16" : "float16"));
        from_hf(test::request_of(scratch / name, scratch / name + "-native"));
        const auto a = ckpt::open(scratch / "native")
                           .load_fp32("layers.0.mlp.up.weight", ckpt::SliceKind::weight);
        const auto b = ckpt::open(scratch / name + "-native")
                           .load_fp32("layers.0.mlp.up.weight", ckpt::SliceKind::weight);
        bool equal = true;
        for (size_t i = 0; i < a.size(); ++i) {
            equal &= b[i] == (dtype == DType::bf16 ? fp32_from_bf16(bf16_from_fp32(a[i]))
                                                   : fp32_from_fp16(fp16_from_fp32(a[i])));
        }
        CHECK(equal);
    }
}

TEST_CASE("the tokenizer of GPT-2 is written when the vocabulary is that of GPT-2") {
    const test::ScratchDirectory scratch;
    spec::ModelConfig config;
    config.n_layers = 1;
    config.hidden = 4;
    config.n_heads = 1;
    config.seq_length = 8;
    config.vocab_size = 50257;
    config.resolve();
    Buffers buffers(config, {});
    auto weights = ckpt::pieces_of(buffers.layout, ckpt::SliceKind::weight, DType::fp32,
                                   buffers.weight.data());
    ckpt::save(ckpt::claim(scratch / "a"), test::info_of(config, 1), weights);
    const ConversionReport report = to_hf(test::request_of(scratch / "a", scratch / "hf"), gpt2);
    CHECK(report.has_tokenizer);
    CHECK(report.end_of_document == 50256);
    CHECK(io::file_size(scratch / "hf/vocab.json") == 1042301);
    CHECK(io::read_json(scratch / "hf/tokenizer_config.json")["model_max_length"] == 8);
    CHECK(io::read_json(scratch / "hf/config.json")["n_inner"].is_null());

    ConversionRequest request = test::request_of(scratch / "a", scratch / "hf2");
    request.tokenizer = scratch / "hf";
    to_hf(request, gpt2);
    CHECK(io::exists(scratch / "hf2/merges.txt"));
    request = test::request_of(scratch / "a", scratch / "hf3");
    request.tokenizer = scratch.path();
    CHECK_THAT(test::error_of([&] { to_hf(request, gpt2); }, Exit::usage),
               ContainsSubstring("--tokenizer"));
    CHECK_FALSE(io::exists(scratch / "hf3"));
}

TEST_CASE("an unsupported model is refused with the flag or the tensor") {
    const auto refused = [](auto change) {
        auto config = test::small_model();
        change(config);
        return test::error_of([&] { check_fits(gpt2, config); }, Exit::usage);
    };
    CHECK(refused([](auto&) {}) == "no error");
    CHECK_THAT(refused([](auto& c) { c.position = spec::PositionEmbedding::alibi; }),
               ContainsSubstring("--position-embedding-type") && ContainsSubstring("alibi"));
    CHECK_THAT(refused([](auto& c) { c.normalization = spec::Normalization::rms_norm; }),
               ContainsSubstring("--normalization"));
    CHECK_THAT(refused([](auto& c) { c.activation = spec::Activation::swiglu; }),
               ContainsSubstring("--swiglu"));
    CHECK_THAT(refused([](auto& c) { c.activation = spec::Activation::geglu; }),
               ContainsSubstring("--glu-activation"));
    CHECK_THAT(refused([](auto& c) { c.n_groups = 2; }), ContainsSubstring("--num-query-groups"));
    CHECK_THAT(refused([](auto& c) { c.head_dim = 7; }), ContainsSubstring("--kv-channels"));
    CHECK_THAT(refused([](auto& c) { c.embedding_norm = true; }),
               ContainsSubstring("--embed-layernorm"));
    CHECK(refused([](auto& c) { c.untied_head = true; }) == "no error");
    CHECK_THAT(refused([](auto& c) { c.linear_bias = false; }),
               ContainsSubstring("--disable-bias-linear"));

    const test::ScratchDirectory scratch;
    const auto import_error = [&](const std::string& in, Exit code) {
        const std::string text =
            test::error_of([&] { from_hf(test::request_of(scratch / in, scratch / "out")); }, code);
        CHECK_FALSE(io::exists(scratch / "out"));
        return text;
    };
    write_hf(scratch / "missing", "", {{"h.1.ln_2.bias", "h.1.ln_9.bias"}});
    CHECK_THAT(import_error("missing", Exit::failure), HasInOrder("h.1.ln_2.bias ", "missing"));
    write_hf(scratch / "wrong", "");
    test::write(scratch / "wrong/config.json",
                R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 40, "n_head": 5,
                    "vocab_size": 77, "n_positions": 13})");
    CHECK_THAT(import_error("wrong", Exit::failure),
               HasInOrder("h.0.mlp.c_fc.weight: ", "[40,160]", "[40,100]"));
    test::write(scratch / "wrong/config.json", R"({"model_type": "bert"})");
    CHECK_THAT(import_error("wrong", Exit::usage), ContainsSubstring("'bert'"));
    io::remove_tree(scratch / "wrong/config.json");
    CHECK_THAT(import_error("wrong", Exit::usage), ContainsSubstring("config.json: "));
    write_hf(scratch / "evil", "");
    io::remove_tree(scratch / "evil/model.safetensors");
    test::write(scratch / "evil/model.safetensors.index.json",
                R"({"weight_map": {"wte.weight": "../wrong/model.safetensors"}})");
    CHECK_THAT(import_error("evil", Exit::failure),
               HasInOrder("model.safetensors.index.json: ", "file name"));
}

TEST_CASE("an existing OUT is replaced only with --force, and only if it is a model") {
    const test::ScratchDirectory scratch;
    write_hf(scratch / "hf", "");
    from_hf(test::request_of(scratch / "hf", scratch / "native"));
    const auto convert_error = [&](const std::string& in, const std::string& out, bool force) {
        ConversionRequest request = test::request_of(in, out);
        request.force = force;
        return test::error_of([&] { to_hf(request, gpt2); }, Exit::usage);
    };
    CHECK_THAT(convert_error(scratch / "native", scratch / "hf", false),
               ContainsSubstring("--force"));
    CHECK(convert_error(scratch / "native", scratch / "hf", true) == "no error");
    CHECK_THAT(convert_error(scratch / "native", scratch / "native", true),
               HasInOrder("native: ", scratch / "native"));
    io::make_directories(scratch / "home");
    test::write(scratch / "home/thesis.tex", "x");
    CHECK_THAT(convert_error(scratch / "native", scratch / "home", true),
               ContainsSubstring(scratch / "home"));
    CHECK(io::exists(scratch / "home/thesis.tex"));
}

TEST_CASE("formats are detected") {
    const test::ScratchDirectory scratch;
    write_hf(scratch / "hf", "");
    from_hf(test::request_of(scratch / "hf", scratch / "native"));
    CHECK(detect_format(scratch / "hf") == ModelFormat(Format::hugging_face, &gpt2));
    CHECK(detect_format(scratch / "hf/model.safetensors").hf_class == &gpt2);
    CHECK(detect_format(scratch / "native") == Format::native);
    CHECK(detect_format(scratch / "native/global_step0") == Format::native);
    CHECK_THAT(test::error_of([&] { detect_format(scratch.path()); }, Exit::usage),
               ContainsSubstring("lm-utils or Megatron"));
}

TEST_CASE("shards are the same as those of huggingface_hub") {
    const std::vector<SizedName> tensors{{"a", 5}, {"b", 11}, {"c", 5}, {"d", 1}, {"e", 10}};
    using Shards = std::vector<std::vector<std::string>>;
    CHECK(plan_shards(tensors, 10) == Shards{{"b"}, {"a", "c"}, {"d"}, {"e"}});
    CHECK(plan_shards(tensors, 100) == Shards{{"a", "b", "c", "d", "e"}});
    CHECK(shard_name(0, 1) == "model.safetensors");
    CHECK(shard_name(1, 12) == "model-00002-of-00012.safetensors");
}

namespace {

struct Case {
    std::string_view name;  // name of the class
    spec::ModelConfig config;
};

// One case for each architecture, in sizes without common divisors.
std::vector<Case> cases() {
    auto erf = test::odd_model(2);
    erf.activation = spec::Activation::gelu_erf;
    erf.untied_head = true;
    auto bloom = test::bloom_model(2, 7, 3);
    bloom.ffn_hidden = 4 * bloom.hidden;
    auto tied = test::llama_model(2, 5, 1);
    tied.untied_head = false;
    tied.linear_bias = true;
    tied.activation = spec::Activation::geglu;
    auto mistral = test::llama_model(2, 6, 3);
    mistral.hidden = 20;
    auto neox = test::odd_model(2);
    neox.position = spec::PositionEmbedding::rope;
    neox.rotary_base = 500;
    auto starcoder2 = test::llama_model(2, 6, 2);
    starcoder2.normalization = spec::Normalization::layer_norm;
    starcoder2.activation = spec::Activation::gelu_tanh;
    auto scaled = test::llama_model(2, 6, 2);
    scaled.rope_scaling = spec::usual_scaling(spec::RotaryRule::llama3);
    scaled.rope_scaling.low_freq_factor = 2;
    auto yarn = test::llama_model(2, 6, 2);
    yarn.rope_scaling = spec::usual_scaling(spec::RotaryRule::yarn);
    yarn.rope_scaling.factor = 4;
    yarn.rope_scaling.beta_fast = 16;
    yarn.rope_scaling.truncate = false;
    auto linear = test::llama_model(2, 6, 2);
    linear.rope_scaling = spec::usual_scaling(spec::RotaryRule::linear);
    linear.rope_scaling.factor = 2.5;
    auto phi3 = test::llama_model(2, 6, 2);
    phi3.rotary_percent = 0.5;
    auto longrope = phi3;
    longrope.rope_scaling = {.rule = spec::RotaryRule::longrope,
                             .factor = 7.0 / 3,
                             .original_length = 3,
                             .attention_factor = 1.25,
                             .short_factors = {1.5},
                             .long_factors = {4}};
    auto qwen2 = test::llama_model(2, 6, 2);
    qwen2.qkv_bias = true;
    auto ministral3 = yarn;
    ministral3.hidden = 20;
    ministral3.query_beta = 0.25;
    ministral3.rope_scaling.mscale_all_dim = 0.5;
    auto seed_oss = qwen2;
    seed_oss.hidden = 20;
    auto qwen3 = test::llama_model(2, 6, 2);
    qwen3.qk_norm = true;
    auto window = mistral;
    window.window = 3;
    auto ministral = window;
    ministral.full_layers.every = 2;
    auto olmo2 = qwen3;
    olmo2.norms = spec::NormPlacement::reordered;
    olmo2.joint_qk_norm = true;
    auto exaone4 = qwen3;
    exaone4.norms = spec::NormPlacement::reordered;
    auto exaone4_window = exaone4;
    exaone4_window.window = 3;
    exaone4_window.full_layers.every = exaone4_window.unrotated_layers.every = 2;
    auto exaone4_wide = exaone4_window;  // a window of all positions, which marks the layers
    exaone4_wide.window = 0;
    exaone4_wide.full_layers = {};
    auto granite = test::llama_model(2, 6, 2);
    granite.embedding_scale = 12;
    granite.attention_scale = 0.3;
    granite.residual_scale = 0.22;
    granite.logit_scale = 0.125;
    auto cohere2 = test::llama_model(2, 6, 2);
    cohere2.normalization = spec::Normalization::layer_norm;
    cohere2.norm_bias = false;
    cohere2.parallel_residual = cohere2.shared_norm = true;
    cohere2.rotary_interleaved = true;
    cohere2.logit_scale = 0.5;
    auto cohere2_window = cohere2;
    cohere2_window.window = 3;
    cohere2_window.full_layers.every = cohere2_window.unrotated_layers.every = 2;
    auto gemma3 = qwen3;
    gemma3.norms = spec::NormPlacement::peri;
    gemma3.norm_1p = true;
    gemma3.attention_scale = 1 / std::sqrt(12.0);
    auto gemma3_window = gemma3;
    gemma3_window.window = 3;
    gemma3_window.full_layers.every = 2;
    gemma3_window.rotary_local_base = 50;
    auto olmo3 = olmo2;
    olmo3.window = 3;
    olmo3.full_layers.every = 2;
    olmo3.rotary_local_base = 50;
    auto glm4 = qwen2;
    glm4.norms = spec::NormPlacement::peri;
    glm4.rotary_interleaved = true;
    glm4.rotary_percent = 0.5;
    auto smollm3 = test::llama_model(2, 6, 2);
    smollm3.unrotated_layers.every = 2;
    auto last_window = qwen3;
    last_window.window = 3;
    last_window.full_layers.chosen = {true, false};
    auto qwen2_window = qwen2;
    qwen2_window.window = 2;
    auto smollm3_window = smollm3;
    smollm3_window.window = 3;
    smollm3_window.full_layers.chosen = {true, false};
    auto partial = neox;
    partial.rotary_percent = 0.5;
    partial.activation = spec::Activation::squared_relu;
    return {{"hf-gpt2", test::odd_model(2)},
            {"hf-gpt2", erf},
            {"hf-bloom", bloom},
            {"hf-llama", test::llama_model(2, 6, 2)},
            {"hf-llama", tied},
            {"hf-mistral", mistral},
            {"hf-gpt-neox", neox},
            {"hf-starcoder2", starcoder2},
            {"hf-llama", scaled},
            {"hf-llama", yarn},
            {"hf-llama", linear},
            {"hf-phi3", phi3},
            {"hf-phi3", longrope},
            {"hf-seed-oss", seed_oss},
            {"hf-ministral3", ministral3},
            {"hf-qwen2", qwen2},
            {"hf-qwen3", qwen3},
            {"hf-mistral", window},
            {"hf-ministral", ministral},
            {"hf-smollm3", smollm3},
            {"hf-smollm3", smollm3_window},
            {"hf-qwen3", last_window},
            {"hf-olmo2", olmo2},
            {"hf-gemma3", gemma3},
            {"hf-gemma3", gemma3_window},
            {"hf-olmo3", olmo3},
            {"hf-glm4", glm4},
            {"hf-cohere2", cohere2},
            {"hf-cohere2", cohere2_window},
            {"hf-granite", granite},
            {"hf-exaone4", exaone4},
            {"hf-exaone4", exaone4_window},
            {"hf-exaone4", exaone4_wide},
            {"hf-qwen2", qwen2_window},
            {"hf-gpt-neox", partial},
            {"hf-nemotron", test::nemotron_model(2, 6, 2)}};
}

}  // namespace

TEST_CASE("every architecture: native -> Hugging Face -> native, bitwise") {
    for (auto& [name, config] : cases()) {
        INFO(name);
        const HfClass& hf = **std::ranges::find(hf_classes(), name, &HfClass::name);
        if (name == "hf-nemotron") config.qkv_bias = config.qk_norm = false;
        config.head_dim = config.position == spec::PositionEmbedding::rope ? 4 : config.head_dim;
        if (name == "hf-gpt-neox") config.hidden = 4 * config.n_heads;
        if (!is_gated(config.activation) || name == "hf-llama" || name == "hf-olmo2" ||
            name == "hf-olmo3" || name == "hf-granite" || name == "hf-cohere2") {
            config.hidden = config.n_heads * config.head_dim;
        }
        config.hidden_dropout = config.attention_dropout = 0;
        if (hf.scaled_embedding)
            config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
        config.seq_length = config.max_positions;
        const test::ScratchDirectory scratch;
        test::save_grid(scratch / "a", config, {.tp = 1, .pp = 2}, 3, 5);
        CHECK(&choose_hf_class(scratch / "a") == &hf);
        ConversionRequest request = test::request_of(scratch / "a", scratch / "hf");
        request.max_shard_bytes = 3000;
        to_hf(request, hf);
        CHECK(detect_format(scratch / "hf").hf_class == &hf);
        const ConversionReport report = from_hf(test::request_of(scratch / "hf", scratch / "b"));
        CHECK(report.n_bytes == 4 * spec::count_parameters(config).total());
        CHECK(same_weights(scratch / "a", scratch / "b"));
        CHECK(ckpt::to_json(ckpt::open(scratch / "b").manifest().model) == ckpt::to_json(config));
    }
}

TEST_CASE("a model that no class of transformers holds names the flag") {
    auto config = test::odd_model(1);
    config.position = spec::PositionEmbedding::none;
    CHECK_THAT(test::error_of([&] { choose_class(config); }, Exit::usage),
               HasInOrder("--position-embedding-type: ", "none", "no supported class"));
    auto bloom = test::bloom_model(1, 4, 4);
    CHECK_THAT(test::error_of([&] { choose_class(bloom); }, Exit::usage),
               HasInOrder("--ffn-hidden-size", "hf-bloom (BloomForCausalLM)"));
    auto llama = test::llama_model(1, 4, 2);
    const auto as_gpt2 = [&] { check_fits(gpt2, llama); };
    CHECK_THAT(test::error_of(as_gpt2, Exit::usage),
               ContainsSubstring("--to hf-llama or hf-mistral"));
}

TEST_CASE("keys of config.json that change only the rounding may have any value") {
    const auto model = [](const std::string& key, const std::string& value, i64 n_layers = 2) {
        const bool is_bloom = key == "slow_but_exact";
        const std::string text = fmt::format(
            R"({{"model_type": "{}", "vocab_size": 9, "hidden_size": 8, "n_layer": {}, "n_head": 2,
                 "n_positions": 4, "{}": {}}})",
            is_bloom ? "bloom" : "gpt2", n_layers, key, value);
        return hf_model(text, "config.json");
    };
    for (const char* key : {"reorder_and_upcast_attn", "slow_but_exact"}) {
        for (const char* value : {"true", "false", "null"})
            CHECK(model(key, value).config.hidden == 8);
        CHECK_THAT(test::error_of([&] { model(key, "\"yes\""); }, Exit::usage),
                   ContainsSubstring(key));
    }
    // The scores of layer i are divided by i, so a model of one layer is the same.
    const std::string by_layer = "scale_attn_by_inverse_layer_idx";
    CHECK(model(by_layer, "true", 1).config.n_layers == 1);
    CHECK_THAT(test::error_of([&] { model(by_layer, "true"); }, Exit::usage),
               HasInOrder(by_layer, "true", "number of the layer"));
    CHECK_THAT(test::error_of([&] { model("scale_attn_weights", "false"); }, Exit::usage),
               HasInOrder("scale_attn_weights", "false", "head size"));
}

TEST_CASE("a config.json of another arithmetic is refused") {
    const auto refused = [](const char* text) {
        return test::error_of([&] { hf_model(text, "config.json"); }, Exit::usage);
    };
    CHECK_THAT(refused(R"({"model_type": "gpt_neox", "vocab_size": 9, "hidden_size": 8,
                           "num_hidden_layers": 1, "num_attention_heads": 2,
                           "attention_bias": false, "intermediate_size": 32})"),
               HasInOrder("'attention_bias' ", "true", "false", "biases"));
    CHECK(hf_model(R"({"model_type": "mistral", "vocab_size": 9, "hidden_size": 8,
                                       "num_hidden_layers": 1, "num_attention_heads": 2,
                                       "intermediate_size": 32,
                                       "max_position_embeddings": 4097})",
                   "config.json")
              .config.window == 4096);
    CHECK_THAT(refused(R"({"model_type": "llama", "vocab_size": 9, "hidden_size": 8,
                           "num_hidden_layers": 1, "num_attention_heads": 2,
                           "intermediate_size": 32, "mlp_bias": true})"),
               ContainsSubstring("attention_bias and mlp_bias"));
    CHECK_THAT(refused(R"({"model_type": "llama", "vocab_size": 9, "hidden_size": 8,
                           "num_hidden_layers": 1, "num_attention_heads": 2,
                           "intermediate_size": 32, "rope_scaling": {"rope_type": "dynamic"}})"),
               HasInOrder("rope_type 'default', linear", "'dynamic'"));
    CHECK_THAT(refused(R"({"model_type": "llama", "vocab_size": 9, "hidden_size": 8,
                           "num_hidden_layers": 1, "num_attention_heads": 2,
                           "intermediate_size": 32,
                           "rope_scaling": {"rope_type": "llama3", "factor": 8,
                                            "low_freq_factor": 5, "high_freq_factor": 4,
                                            "original_max_position_embeddings": 8192}})"),
               ContainsSubstring("--rope-scaling-high-freq-factor"));
}
