// SPDX-License-Identifier: Apache-2.0
// tokenizer.json files against ids that Hugging Face tokenizers gave (golden/text/make_hf.py), and
// the refusals by name.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/version.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/temp_dir.hpp"
#include "text/tokenizer.hpp"

using namespace lm;
using namespace lm::text;
using io::Json;

namespace {

// A whole tokenizer.json of a style over GPT-2's tables.
Json whole(const Json& style) {
    static const Json vocab = io::read_json(share_file("tokenizers/gpt2/vocab.json"));
    static const Json merges = [] {
        Json list = Json::array();
        std::ifstream in(share_file("tokenizers/gpt2/merges.txt"));
        std::string line;
        std::getline(in, line);
        while (std::getline(in, line)) list.push_back(line);
        return list;
    }();
    Json j = style;
    j["version"] = "1.0";
    j["model"] = {{"type", "BPE"},
                  {"vocab", vocab},
                  {"merges", merges},
                  {"ignore_merges", style.value("ignore_merges", false)}};
    return j;
}

std::string failure_of(const test::TempDir& dir, const Json& json) {
    io::write_file(dir / "tokenizer.json", json.dump(), io::Overwrite::yes);
    try {
        load_hf_tokenizer(dir.path(), SpecialInText::parse);
    } catch (const Error& e) {
        return e.what();
    }
    return "loads";
}

}  // namespace

TEST_CASE("ids of tokenizer.json files equal Hugging Face's") {
    const test::TempDir dir;
    const Json styles = io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json");
    std::map<std::string, std::shared_ptr<const Tokenizer>> tokenizers;
    std::map<std::string, std::unique_ptr<Encoder>> encoders;
    for (const auto& [name, style] : styles.items()) {
        const std::string path = dir / (name + ".json");
        io::write_file(path, whole(style).dump(), io::Overwrite::no);
        tokenizers[name] = load_hf_tokenizer(path, SpecialInText::parse);
        encoders[name] = tokenizers[name]->make_encoder();
    }
    std::ifstream in(LM_TEST_DIR "/golden/text/hf-ids.jsonl");
    int n = 0;
    for (std::string line; std::getline(in, line); ++n) {
        const Json j = Json::parse(line);
        const auto text = j["text"].get<std::string>();
        const auto style = j["style"].get<std::string>();
        std::vector<u16> ids(
            static_cast<size_t>(tokenizers[style]->max_ids(static_cast<i64>(text.size()))));
        ids.resize(static_cast<size_t>(encoders[style]->encode(text, ids.data())));
        INFO(style << ": " << j["text"]);
        CHECK(ids == j["ids"].get<std::vector<u16>>());
    }
    CHECK(n > 200);
    CHECK(tokenizers["bloom"]->eod() == 50257);
    CHECK(tokenizers["llama3"]->vocab_size() == 50260);
    std::string back;
    tokenizers["llama3"]->decode(std::vector<i32>{50257, 15496, 50259}, back);
    CHECK(back == "<s>Hellothe own");
}

TEST_CASE("what a tokenizer.json may not ask for is refused by name") {
    const test::TempDir dir;
    const Json base = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
    const auto with = [&](const char* pointer, const Json& value) {
        Json changed = base;
        changed[Json::json_pointer(pointer)] = value;
        return failure_of(dir, changed);
    };
    using Catch::Contains;
    CHECK(with("/normalizer", nullptr) == "loads");
    CHECK_THAT(with("/version", "2.0"), Contains("version 2.0"));
    CHECK_THAT(with("/normalizer", {{"type", "NFC"}}), Contains("'NFC' is not supported"));
    CHECK_THAT(with("/model/type", "Unigram"), Contains("'Unigram' is not supported"));
    CHECK_THAT(with("/model/byte_fallback", true), Contains("byte_fallback"));
    CHECK_THAT(with("/model/dropout", 0.1), Contains("dropout"));
    CHECK_THAT(with("/pre_tokenizer/add_prefix_space", true), Contains("add_prefix_space"));
    CHECK_THAT(with("/pre_tokenizer", {{"type", "Whitespace"}}), Contains("'Whitespace'"));
    CHECK_THAT(with("/added_tokens/0/lstrip", true), Contains("lstrip"));
    CHECK_THAT(with("/added_tokens/0/id", 5), Contains("has id 5"));
    CHECK_THAT(with("/model/vocab/!", 1), Contains("stands twice"));
    CHECK_THAT(with("/model/merges/7", "a"), Contains("merge 7: is not a pair"));
    CHECK_THAT(with("/post_processor", {{"type", "BertProcessing"}}), Contains("BertProcessing"));
    CHECK_THAT(failure_of(dir, Json::object()), Contains("has no model"));
}
