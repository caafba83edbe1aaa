// SPDX-License-Identifier: Apache-2.0
// The ids of tokenizer.json files against those of Hugging Face tokenizers
// (golden/text/make_hf.py), and errors for unsupported options.
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "support/ids.hpp"
#include "support/reference_pretokenizer.hpp"
#include "support/temp_dir.hpp"
#include "text/choice/tokenizer_choice.hpp"
#include "text/pretokenizer/patterns.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_json/pretokenizer_component.hpp"
#include "text/tokenizer_json/read_tokenizer.hpp"

using namespace lm;
using namespace lm::text;
using io::Json;

namespace {

// Returns a tokenizer.json with the components of a style and the vocabulary and merges of GPT-2.
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
    j.erase("ignore_merges");  // an option of the model
    j["version"] = "1.0";
    j["model"] = {{"type", "BPE"},
                  {"vocab", vocab},
                  {"merges", merges},
                  {"ignore_merges", style.value("ignore_merges", false)}};
    return j;
}

std::string failure_of(const test::TempDir& dir, const std::string& text) {
    io::write_file(dir / "tokenizer.json", text, io::Overwrite::yes);
    try {
        load_hf_tokenizer(dir.path(), SpecialInText::parse);
    } catch (const Error& e) {
        return e.what();
    }
    return "loads";
}

std::string failure_of(const test::TempDir& dir, const Json& json) {
    return failure_of(dir, json.dump());
}

}  // namespace

TEST_CASE("tokenizer.json: ids equal those of Hugging Face tokenizers") {
    const test::TempDir dir;
    const Json styles = io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json");
    std::map<std::string, std::shared_ptr<const Tokenizer>> tokenizers;
    std::map<std::string, std::unique_ptr<Encoder>> encoders;
    for (const auto& [name, style] : styles.items()) {
        const std::string path = dir / (name + ".json");
        io::write_file(path, whole(style).dump(), io::Overwrite::no);
        tokenizers[name] = load_hf_tokenizer(path, SpecialInText::parse);
        encoders[name] = tokenizers[name]->make_encoder(-1);
    }
    std::ifstream in(LM_TEST_DIR "/golden/text/hf-ids.jsonl");
    int n = 0;
    for (std::string line; std::getline(in, line); ++n) {
        const Json j = Json::parse(line);
        const auto text = j["text"].get<std::string>();
        const auto style = j["style"].get<std::string>();
        INFO(style << ": " << j["text"]);
        CHECK(test::narrow_ids_of(*encoders[style], text) == j["ids"].get<std::vector<i32>>());
    }
    CHECK(n > 200);
    CHECK(tokenizers["bloom"]->eod() == 50257);
    CHECK(tokenizers["llama3"]->vocab_size() == 50260);
    std::string back;
    tokenizers["llama3"]->decode(std::vector<i32>{50257, 15496, 50259}, back);
    CHECK(back == "<s>Hellothe own");
}

TEST_CASE("tokenizer.json: unsupported options are refused by name") {
    const test::TempDir dir;
    const Json base = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
    const auto with = [&](const char* pointer, const Json& value) {
        Json changed = base;
        changed[Json::json_pointer(pointer)] = value;
        return failure_of(dir, changed);
    };
    CHECK(with("/normalizer", nullptr) == "loads");
    CHECK_THAT(with("/version", "2.0"), ContainsSubstring("version 2.0"));
    CHECK(with("/normalizer", {{"type", "NFC"}}) == "loads");
    CHECK_THAT(with("/normalizer", {{"type", "BertNormalizer"}}),
               ContainsSubstring("'BertNormalizer'"));
    CHECK_THAT(with("/normalizer", {{"type", "NFC"}, {"odd", 1}}),
               ContainsSubstring("option 'odd'"));
    CHECK_THAT(with("/normalizer", {{"type", "Sequence"}}),
               HasInOrder("'normalizers' ", "missing"));
    const auto replace = [&](const Json& pattern) {
        return with("/normalizer", {{"type", "Replace"}, {"pattern", pattern}, {"content", "x"}});
    };
    CHECK(replace({{"String", " "}}) == "loads");
    CHECK(with("/normalizer", {{"type", "Prepend"}, {"prepend", "x"}}) == "loads");
    CHECK_THAT(with("/normalizer", {{"type", "Prepend"}, {"prepend", ""}}),
               HasInOrder("Prepend ", "empty"));
    for (const char* key : {"/truncation", "/padding", "/decoder", "/post_processor"})
        CHECK(with(key, nullptr) == "loads");
    Json deep = Json::array();
    for (int depth = 0; depth < 200; ++depth) deep = Json::array({deep});
    CHECK_THAT(with("/normalizer", deep), HasInOrder("tokenizer.json: 'normalizer': ", "nested"));
    CHECK_THAT(with("/frobnicate", 1), ContainsSubstring("key 'frobnicate'"));
    CHECK_THAT(with("/type", "BPE"), ContainsSubstring("key 'type'"));
    CHECK_THAT(replace({{"String", ""}}), ContainsSubstring("the empty pattern"));
    CHECK_THAT(replace({{"Regex", " +"}}), ContainsSubstring("\"Regex\":\" +\""));
    CHECK_THAT(with("/model/type", "Unigram"), ContainsSubstring("'Unigram'"));
    CHECK(with("/model/byte_fallback", true) == "loads");  // every byte has a token
    CHECK_THAT(with("/model/continuing_subword_prefix", "##"),
               ContainsSubstring("continuing_subword"));
    CHECK_THAT(with("/model/end_of_word_suffix", "</w>"), ContainsSubstring("end_of_word_suffix"));
    CHECK_THAT(with("/model/new_option", 1), ContainsSubstring("new_option"));
    CHECK_THAT(with("/model/dropout", 0.1), ContainsSubstring("dropout"));
    const auto split = [&](const char* behavior, const Json& pattern, bool invert = false) {
        const Json part = {
            {"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
        const Json bytes = {
            {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
        return with("/pre_tokenizer",
                    {{"type", "Sequence"}, {"pretokenizers", Json::array({part, bytes})}});
    };
    const auto digits = [&](const Json& part, bool use_regex) {
        const Json bytes = {
            {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}};
        return with("/pre_tokenizer",
                    {{"type", "Sequence"}, {"pretokenizers", Json::array({part, bytes})}});
    };
    const Json each = {{"type", "Digits"}, {"individual_digits", true}};
    CHECK(digits(each, true) == "loads");
    CHECK_THAT(digits(each, false),
               ContainsSubstring("(Digits with individual_digits, ByteLevel without use_regex)"));
    CHECK_THAT(digits({{"type", "Punctuation"}}, true),
               ContainsSubstring("(Punctuation with behavior Isolated, ByteLevel with use_regex)"));
    CHECK_THAT(digits({{"type", "Punctuation"}, {"behavior", 1}}, true),
               ContainsSubstring("'behavior'"));
    const Json llama = {{"Regex", std::string(pattern::llama3)}};
    CHECK(split("Isolated", llama) == "loads");
    CHECK_THAT(split("Removed", llama), ContainsSubstring("'Removed'"));
    CHECK_THAT(split("Isolated", llama, true), ContainsSubstring("invert"));
    CHECK(split("Removed", llama, true) == "loads");  // the matches have no text between them
    const Json bloom = {{"Regex", std::string(pattern::bloom)}};
    CHECK_THAT(split("Removed", bloom, true), ContainsSubstring("'Removed' and invert true"));
    CHECK_THAT(split("Isolated", {{"Regex", "\\s+"}}),
               ContainsSubstring("pattern {\"Regex\":\"\\\\s+\"}"));
    CHECK_THAT(split("Isolated", {{"String", " "}}),
               ContainsSubstring("pattern {\"String\":\" \"}"));
    CHECK_THAT(with("/pre_tokenizer", {{"type", "Whitespace"}}), ContainsSubstring("'Whitespace'"));
    CHECK_THAT(with("/added_tokens/0/id", 5), HasInOrder("id 50256", "5"));
    CHECK_THAT(with("/added_tokens/0/content", ""), ContainsSubstring("empty content"));
    CHECK_THAT(with("/added_tokens/0/content", "<new>"), ContainsSubstring("id 50257"));
    CHECK(with("/added_tokens/1", base["added_tokens"][0]) == "loads");
    Json again = base["added_tokens"][0];
    again["lstrip"] = true;
    CHECK_THAT(with("/added_tokens/1", again), ContainsSubstring("twice"));
    CHECK(with("/truncation", {{"max_length", 512}}) == "loads");
    CHECK(with("/padding", {{"strategy", "BatchLongest"}}) == "loads");
    CHECK_THAT(with("/model/vocab/beyond", (1 << 21) - 1), ContainsSubstring("2097152 ids"));
    CHECK_THAT(with("/model/vocab/beyond", 1 << 21), HasInOrder("'beyond': ", "integer"));
    CHECK_THAT(with("/model/vocab/minus", -1), HasInOrder("'minus': ", "integer"));
    CHECK_THAT(with("/model/merges", nullptr), HasInOrder("'merges' ", "missing"));
    CHECK_THAT(with("/model/merges/7", "qqq zzz"), HasInOrder("merge 7: ", "'qqq'"));
    CHECK_THAT(with("/model/vocab/!", 1), ContainsSubstring("duplicate id"));
    CHECK_THAT(with("/model/merges/7", "a"), HasInOrder("merge 7: ", "pair"));
    CHECK_THAT(with("/post_processor", {{"type", "Other"}}),
               ContainsSubstring("post_processor 'Other'"));
    CHECK_THAT(with("/post_processor", {{"type", "BertProcessing"}}),
               HasInOrder("'cls' ", "missing"));
    CHECK_THAT(with("/model/vocab/odd", 1.5), HasInOrder("'odd': ", "integer"));
    CHECK_THAT(with("/model/vocab", Json::array()), ContainsSubstring("'vocab' "));
    CHECK_THAT(with("/model", Json::array()), HasInOrder("model ", "object"));
    Json pairs = Json::array();
    for (const Json& merge : base["model"]["merges"]) {
        const auto text = merge.get<std::string>();
        const size_t space = text.find(' ');
        pairs.push_back({text.substr(0, space), text.substr(space + 1)});
    }
    CHECK(with("/model/merges", pairs) == "loads");
    pairs[9].push_back("three");
    CHECK_THAT(with("/model/merges", pairs), HasInOrder("merge 9: ", "pair"));
    pairs[9] = {"a", 5};
    CHECK_THAT(with("/model/merges", pairs), HasInOrder("merge 9: ", "pair"));
    CHECK_THAT(failure_of(dir, Json::object()), HasInOrder("'model' ", "missing"));
    CHECK_THAT(failure_of(dir, Json::array()), HasInOrder("'model' ", "missing"));
    CHECK_THAT(failure_of(dir, std::string("{\"text\": \"a\"}\n{\"text\": \"b\"}\n")),
               HasInOrder("tokenizer.json", "'model'", "JSON Lines"));
    const std::string brackets(2000, '[');
    CHECK_THAT(failure_of(dir, "{\"a\": " + brackets + std::string(2000, ']') + "}\n"),
               HasInOrder("tokenizer.json: ", "deeply"));
    const std::string text = base.dump();
    CHECK_THAT(failure_of(dir, text.substr(0, text.size() / 2)),
               HasInOrder("tokenizer.json: ", " line "));
    CHECK_THAT(failure_of(dir, std::string("{\"a\": \"\xFF\"}")),
               HasInOrder("tokenizer.json: ", "line 1, column 8: "));
    CHECK_THAT(failure_of(dir, std::string()),
               HasInOrder("tokenizer.json: ", "line 1, column 1: "));
}

TEST_CASE("tokenizer.json without merges: ids are bytes, with ignore_merges whole tokens") {
    const test::TempDir dir;
    std::vector<std::string> warnings;
    set_log_sink([&](Severity, std::string_view text) { warnings.emplace_back(text); });
    Json json = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
    json["model"]["merges"] = Json::array();
    const auto ids = [&](bool ignore_merges) {
        json["model"]["ignore_merges"] = ignore_merges;
        io::write_file(dir / "tokenizer.json", json.dump(), io::Overwrite::yes);
        return load_hf_tokenizer(dir.path(), SpecialInText::parse)->encode("Hello hello zq");
    };
    const std::vector<i32> bytes = {39, 68, 75, 75, 78, 220, 71, 68, 75, 75, 78, 220, 89, 80};
    CHECK(ids(false) == bytes);
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(warnings[0], HasInOrder("50257 tokens", "no merges"));
    CHECK(ids(true) == std::vector<i32>{15496, 23748, 220, 89, 80});
    CHECK(warnings.size() == 1);
    set_log_sink({});
}

TEST_CASE("a gap in the ids of added tokens is named with the remedy") {
    const test::TempDir dir;
    Json base = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
    base["added_tokens"] = {{{"id", 50267}, {"content", "<x>"}, {"special", true}}};
    CHECK_THAT(failure_of(dir, base), HasInOrder("'<x>'", "50257", "50267", "save_pretrained"));
}

TEST_CASE("pre_tokenizer: every rule that is written is read as the same rule") {
    for (const PretokenizerRule rule : test::all_rules) {
        const io::OrderedJson written = pretokenizer_json(rule);
        CHECK(read_pretokenizer(Json::parse(written.dump()), "here").rule == rule);
    }
}

TEST_CASE("encoding takes linear time with every style") {
    const test::TempDir dir;
    const Json styles = io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json");
    for (const char* style : {"bloom", "llama3", "flags"}) {
        io::write_file(dir / "tokenizer.json", whole(styles[style]).dump(), io::Overwrite::yes);
        const auto tokenizer = load_hf_tokenizer(dir.path(), SpecialInText::parse);
        for (const char* unit : {"a", " ", "\u4E00", "'s", "\n", "1", "\u0301", "<|", "of"}) {
            u64 work[2];
            for (const size_t k : {size_t{0}, size_t{1}}) {
                std::string text;
                while (text.size() < (k == 0 ? 20'000U : 200'000U)) text += unit;
                const auto encoder = tokenizer->make_encoder(-1);
                test::ids_of(*encoder, text);
                work[k] = encoder->operations();
            }
            INFO(style << ", " << unit << ": " << work[0] << " then " << work[1]);
            CHECK(work[1] < 11 * work[0] + 1000);
        }
    }
}

TEST_CASE("decode: an error names the id that is out of range") {
    const test::TempDir dir;
    const Json base = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
    io::write_file(dir / "tokenizer.json", base.dump(), io::Overwrite::yes);
    const auto tokenizer = load_hf_tokenizer(dir.path(), SpecialInText::parse);
    std::string out;
    CHECK_THROWS_WITH(tokenizer->decode(std::vector<i32>{1, 50257}, out),
                      HasInOrder("id 50257 ", "range"));
    CHECK_THROWS_WITH(tokenizer->decode(std::vector<i32>{-1}, out), HasInOrder("id -1 ", "range"));
}

TEST_CASE("end of document: eos_token of tokenizer_config.json and special_tokens_map.json") {
    const test::TempDir dir;
    const Json base = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
    io::write_file(dir / "tokenizer.json", base.dump(), io::Overwrite::yes);
    const auto write = [&](const char* name, const Json& json) {
        io::write_file(dir / name, json.dump(), io::Overwrite::yes);
    };
    const auto eod = [&](const Json& config, const Json& map) -> std::string {
        write("tokenizer_config.json", config);
        write("special_tokens_map.json", map);
        try {
            const auto id = load_hf_tokenizer(dir.path(), SpecialInText::parse)->eod();
            return id ? std::to_string(*id) : "none";
        } catch (const Error& e) {
            return e.what();
        }
    };
    const Json nothing = Json::object();
    CHECK(eod(nothing, nothing) == "50256");
    CHECK(eod({{"eos_token", nullptr}}, nothing) == "50256");
    CHECK(eod({{"eos_token", "!"}}, nothing) == "0");
    CHECK(eod({{"eos_token", {{"content", "!"}}}}, nothing) == "0");
    CHECK_THAT(eod({{"eos_token", "nope"}}, nothing),
               ContainsSubstring("tokenizer_config.json: eos_token 'nope' "));
    CHECK_THAT(eod({{"eos_token", {{"content", nullptr}}}}, nothing),
               HasInOrder("tokenizer_config.json: eos_token: ", "string", "{\"content\":null}"));
    CHECK_THAT(eod({{"eos_token", 7}}, nothing), HasInOrder("'content'", "7"));
    CHECK_THAT(eod(Json::array(), nothing), HasInOrder("tokenizer_config.json: ", "JSON"));
    CHECK(eod(nothing, {{"eos_token", "\""}}) == "1");
    CHECK(eod({{"eos_token", "!"}}, {{"eos_token", "\""}}) == "1");
    const Json newer = {{"eos_token", "!"}, {"added_tokens_decoder", nothing}};
    CHECK(eod(newer, {{"eos_token", "\""}}) == "0");
    CHECK_THAT(eod(nothing, {{"eos_token", "nope"}}),
               ContainsSubstring("special_tokens_map.json: eos"));
}

TEST_CASE("add_bos_token that the post_processor does not follow is noted") {
    const test::TempDir dir;
    Json base = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
    base["added_tokens"] = {
        {{"id", 50256}, {"content", "<|endoftext|>"}, {"special", true}, {"normalized", false}}};
    const auto notes = [&](const Json& config) {
        io::write_file(dir / "tokenizer.json", base.dump(), io::Overwrite::yes);
        io::write_file(dir / "tokenizer_config.json", config.dump(), io::Overwrite::yes);
        std::vector<std::string> found;
        set_log_sink([&](Severity, std::string_view text) { found.emplace_back(text); });
        load_hf_tokenizer(dir.path(), SpecialInText::parse);
        set_log_sink({});
        return found.size();
    };
    const Json bos = {{"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}};
    const auto with = [&](const char* key, bool value) {
        Json config = bos;
        config[key] = value;
        return notes(config);
    };
    CHECK(notes(bos) == 0);
    CHECK(with("add_bos_token", false) == 0);
    CHECK(with("add_bos_token", true) == 1);
    CHECK(with("add_eos_token", true) == 1);
    base["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair", Json::array()},
        {"special_tokens",
         {{"<|endoftext|>",
           {{"id", "<|endoftext|>"}, {"ids", {50256}}, {"tokens", {"<|endoftext|>"}}}}}}};
    CHECK(with("add_bos_token", true) == 0);
    CHECK(with("add_bos_token", false) == 1);
    CHECK(with("add_eos_token", false) == 0);

    // transformers has no template of the file for this class.
    const auto ids = [&](const char* tokenizer_class) {
        Json config = bos;
        config["tokenizer_class"] = tokenizer_class;
        CHECK(notes(config) == 0);
        return load_hf_tokenizer(dir.path(), SpecialInText::parse)->encode("hello");
    };
    const std::vector<i32> with_template = ids("PreTrainedTokenizerFast");
    const std::vector<i32> without = ids("GPTNeoXTokenizerFast");
    CHECK(with_template.front() == 50256);
    CHECK(without == std::vector<i32>(with_template.begin() + 1, with_template.end()));
    CHECK(notes({{"split_special_tokens", true}}) == 1);

    // Hugging Face's second template of a Sequence sees two sequences, and adds nothing.
    base["post_processor"] = {
        {"type", "Sequence"},
        {"processors", {{{"type", "ByteLevel"}}, base["post_processor"], base["post_processor"]}}};
    io::write_file(dir / "tokenizer.json", base.dump(), io::Overwrite::yes);
    CHECK_THROWS_AS(load_hf_tokenizer(dir.path(), SpecialInText::parse), Error);
}

TEST_CASE("special tokens of tokenizer_config.json and special_tokens_map.json") {
    const test::TempDir dir;
    const Json base = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
    io::write_file(dir / "tokenizer.json", base.dump(), io::Overwrite::yes);
    const auto write = [&](const char* name, const Json& json) {
        io::write_file(dir / name, json.dump(), io::Overwrite::yes);
    };
    const auto ids = [&](const Json& config, const Json& map, std::string_view text,
                         SpecialInText special = SpecialInText::parse) {
        write("tokenizer_config.json", config);
        write("special_tokens_map.json", map);
        const auto tokenizer = load_hf_tokenizer(dir.path(), special);
        IdBuffer buffer(true);
        tokenizer->make_encoder(-1)->encode(text, buffer);
        return std::vector<i32>(buffer.ids<i32>().begin(), buffer.ids<i32>().end());
    };
    using Ids = std::vector<i32>;
    const Json nothing = Json::object();
    const std::string text = "hello hello";
    const Ids merged = ids(nothing, nothing, text);
    const i32 hello = merged.front();
    REQUIRE(merged.size() == 2);
    // As in transformers, they are found in any position of the text.
    const Ids split = {hello, 220, hello};
    for (const char* role : {"eos_token", "pad_token", "unk_token", "bos_token"}) {
        CHECK(ids({{role, "hello"}}, nothing, text) == split);
        CHECK(ids(nothing, {{role, {{"content", "hello"}}}}, text) == split);
        CHECK(ids({{role, "hello"}}, nothing, text, SpecialInText::plain) == merged);
    }
    CHECK(ids({{"additional_special_tokens", {"x", "hello"}}}, nothing, text) == split);
    CHECK(ids({{"eos_token", {{"content", "hello"}, {"lstrip", true}}}}, nothing, text) ==
          Ids{hello, hello});
    CHECK(ids({{"eos_token", "hello"}}, {{"eos_token", "!"}}, text) == merged);
    const Json listed = {{"5", {{"content", "hello"}, {"rstrip", true}}}};
    CHECK(ids({{"eos_token", "hello"}, {"added_tokens_decoder", listed}}, nothing, text) ==
          Ids{hello, hello});
    CHECK(ids({{"pad_token", "not in the vocabulary"}}, nothing, text) == merged);
    CHECK(ids({{"extra_special_tokens", {"x", "hello"}}}, nothing, text) == split);
    CHECK(ids({{"extra_special_tokens", {{"image_token", "hello"}}}}, nothing, text) == split);
    // added_tokens.json is read without the list.
    write("added_tokens.json", {{"hello", 5}});
    CHECK(ids(nothing, nothing, text) == split);
    CHECK(ids({{"added_tokens_decoder", nothing}}, nothing, text) == merged);
    write("added_tokens.json", {{"hello", "5"}});
    CHECK_THROWS_WITH(ids(nothing, nothing, text), HasInOrder("added_tokens.json", "hello", "5"));
    write("added_tokens.json", nothing);
    // The list replaces the flags of the tokenizer.json.
    Json with_hello = base;
    with_hello["added_tokens"].push_back(
        {{"id", hello}, {"content", "hello"}, {"special", true}, {"normalized", false}});
    io::write_file(dir / "tokenizer.json", with_hello.dump(), io::Overwrite::yes);
    CHECK(ids(nothing, nothing, text) == split);
    CHECK(ids({{"added_tokens_decoder", listed}}, nothing, text) == Ids{hello, hello});
    // A token of the list is special only if the list or a role says so, and if it is not, it is
    // found after the normalizer.
    const Json lowercase = {{"type", "Lowercase"}};
    for (Json file : {base, with_hello}) {
        file["normalizer"] = lowercase;
        io::write_file(dir / "tokenizer.json", file.dump(), io::Overwrite::yes);
        const Json plain = {{"7", {{"content", "hello"}}}};
        const Json special = {{"7", {{"content", "hello"}, {"special", true}}}};
        const std::string upper = "HELLO HELLO";
        for (const auto in_text : {SpecialInText::parse, SpecialInText::plain}) {
            CHECK(ids({{"added_tokens_decoder", plain}}, nothing, upper, in_text) == split);
            CHECK(ids({{"added_tokens_decoder", special}}, nothing, upper, in_text) == merged);
        }
        CHECK(ids({{"added_tokens_decoder", special}}, nothing, text) == split);
        CHECK(ids({{"added_tokens_decoder", plain}, {"pad_token", "hello"}}, nothing, text,
                  SpecialInText::plain) == merged);
    }
}

TEST_CASE("a note states where transformers gives other ids for a directory") {
    const test::TempDir dir;
    Json base = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
    const auto write = [&](const char* name, const Json& json) {
        io::write_file(dir / name, json.dump(), io::Overwrite::yes);
    };
    write("tokenizer.json", base);
    const auto notes = [&](const Json& config) {
        write("tokenizer_config.json", config);
        std::vector<std::string> found;
        set_log_sink([&](Severity, std::string_view text) { found.emplace_back(text); });
        load_hf_tokenizer(dir.path(), SpecialInText::parse);
        set_log_sink({});
        return found;
    };
    CHECK(notes({{"pad_token", "hello"}}).empty());
    for (const Json& config :
         std::vector<Json>{{{"pad_token", "<|pad|>"}},
                           {{"additional_special_tokens", {"<|pad|>", "hello"}}},
                           {{"extra_special_tokens", {"<|pad|>"}}},
                           {{"added_tokens_decoder", {{"50257", {{"content", "<|pad|>"}}}}}}}) {
        const std::vector<std::string> found = notes(config);
        REQUIRE(found.size() == 1);
        CHECK_THAT(found[0], HasInOrder("tokenizer.json", "'<|pad|>'"));
    }
    write("added_tokens.json", {{"<|pad|>", 50257}, {"<|user|>", 50258}});
    CHECK(notes(Json::object()).size() == 1);
    write("added_tokens.json", Json::object());

    const auto of_class = [&](const char* name) {
        return notes({{"tokenizer_class", name}}).size();
    };
    CHECK(of_class("GPT2Tokenizer") == 0);
    CHECK(of_class("Qwen2TokenizerFast") == 1);
    CHECK(of_class("PreTrainedTokenizerFast") == 0);
    CHECK(notes({{"tokenizer_class", "GPT2TokenizerFast"}, {"add_prefix_space", true}}).size() ==
          1);
    CHECK(notes({{"tokenizer_class", "LlamaTokenizer"}, {"add_prefix_space", true}}).empty());
    // Llama's class adds the first id and not the last one, unless the file states otherwise.
    const Json end = {{"tokenizer_class", "LlamaTokenizerFast"}, {"bos_token", "<|endoftext|>"}};
    CHECK(notes(end).size() == 1);
    Json stated = end;
    stated["add_bos_token"] = false;
    CHECK(notes(stated).empty());
}

TEST_CASE("a merge that is listed twice has its last rank") {
    const test::TempDir dir;
    const auto ids = [&](const std::vector<const char*>& merges) {
        Json base =
            whole({{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}});
        Json& model = base["model"];
        for (const char* token : {"ab", "bc"}) {
            if (!model["vocab"].contains(token)) model["vocab"][token] = model["vocab"].size();
        }
        model["merges"] = merges;
        io::write_file(dir / "tokenizer.json", base.dump(), io::Overwrite::yes);
        return load_hf_tokenizer(dir.path(), SpecialInText::parse)->encode("abc");
    };
    const auto first = ids({"a b", "b c"}), second = ids({"b c", "a b"});
    REQUIRE(first != second);
    CHECK(ids({"a b", "b c", "a b"}) == second);
    CHECK(ids({"b c", "a b", "b c", "b c"}) == first);
}

TEST_CASE("bytes without a token matter only for texts that have them") {
    // GPT-NeoX-20B has no token for the 13 bytes that UTF-8 never has, and tokenizers that were
    // trained without an alphabet have none for bytes that their corpus lacked, here U+0001.
    const test::TempDir dir;
    const auto load = [&](const std::vector<const char*>& missing) {
        Json j = whole({{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}});
        for (const char* token : missing) j["model"]["vocab"].erase(token);
        io::write_file(dir / "tokenizer.json", j.dump(), io::Overwrite::yes);
        return load_hf_tokenizer(dir.path(), SpecialInText::parse);
    };
    const std::vector<const char*> never{"À", "Á", "õ", "ö", "÷", "ø", "ù",
                                         "ú", "û", "ü", "ý", "þ", "ÿ"};
    const std::string text = "Hello \xe6\x97\xa5, caf\xc3\xa9\n";
    const auto whole_ids = load({})->encode(text);
    CHECK(load(never)->encode(text) == whole_ids);
    std::vector<const char*> more = never;
    more.push_back("ā");
    const auto tokenizer = load(more);
    CHECK(tokenizer->encode(text) == whole_ids);
    CHECK_THROWS_AS(tokenizer->encode("a\x01"), UnknownByte);
    CHECK(tokenizer->encode(text) == whole_ids);
}

TEST_CASE("bytes without a token get the id of unk_token") {
    const test::TempDir dir;
    Json j = whole({{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}});
    j["model"]["vocab"].erase("ā");
    const auto load = [&] {
        io::write_file(dir / "tokenizer.json", j.dump(), io::Overwrite::yes);
        return load_hf_tokenizer(dir.path(), SpecialInText::parse);
    };
    const auto without = load();
    j["model"]["unk_token"] = "<|endoftext|>";
    const auto tokenizer = load();
    CHECK(tokenizer->encode("a\x01\x01 b") == std::vector<i32>{64, 50256, 50256, 275});
    CHECK(tokenizer->encode("Hello") == without->encode("Hello"));
    CHECK(tokenizer->digest() != without->digest());
    // A token of merges, or of a byte, is not taken: its ids would depend on these merges.
    j["model"]["unk_token"] = "!";
    CHECK_THROWS_AS(load()->encode("a\x01"), UnknownByte);
    j["model"]["unk_token"] = "<|endoftext|>";
    j["model"]["fuse_unk"] = true;
    CHECK_THROWS_AS(load()->encode("a\x01"), UnknownByte);
}

TEST_CASE("ids without a token") {
    const test::TempDir dir;
    Json json = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
    json["model"]["vocab"]["beyond"] = 60000;
    io::write_file(dir / "tokenizer.json", json.dump(), io::Overwrite::yes);
    const auto tokenizer = load_hf_tokenizer(dir.path(), SpecialInText::parse);
    CHECK(tokenizer->vocab_size() == 60001);
    CHECK(tokenizer->encode("Hello beyond") == std::vector<i32>{15496, 3675});
    std::string out;
    tokenizer->decode(std::vector<i32>{60000}, out);
    CHECK(out == "beyond");
    CHECK_THROWS_WITH(tokenizer->decode(std::vector<i32>{55555}, out),
                      ContainsSubstring("id 55555 "));
}

TEST_CASE("--special-in-text plain affects special tokens, not other added tokens") {
    const test::TempDir dir;
    const Json json = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["llama3"]);
    io::write_file(dir / "tokenizer.json", json.dump(), io::Overwrite::yes);
    const auto plain = load_hf_tokenizer(dir.path(), SpecialInText::plain);
    const auto parse = load_hf_tokenizer(dir.path(), SpecialInText::parse);
    CHECK(parse->encode("<s>the own") == std::vector<i32>{50257, 50257, 50259});
    CHECK(plain->encode("<s>the own") == std::vector<i32>{50257, 27, 82, 29, 50259});
    CHECK(plain->digest() != parse->digest());
}

TEST_CASE("added tokens of whitespace with lstrip and rstrip as in Hugging Face tokenizers") {
    const test::TempDir dir;
    const Json base = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
    const auto ids_of = [&](bool lstrip, bool rstrip, const std::string& text) {
        Json json = base;
        json["added_tokens"].push_back({{"id", 50257},
                                        {"content", "\n\n"},
                                        {"lstrip", lstrip},
                                        {"rstrip", rstrip},
                                        {"special", true}});
        io::write_file(dir / "tokenizer.json", json.dump(), io::Overwrite::yes);
        const auto tokenizer = load_hf_tokenizer(dir.path(), SpecialInText::parse);
        return tokenizer->encode(text);
    };
    using Ids = std::vector<i32>;
    const std::string text = "a \n\n\n\n \n\nb";
    CHECK(ids_of(true, true, text) == Ids{64, 50257, 65});
    CHECK(ids_of(false, true, text) == Ids{64, 220, 50257, 50257, 50257, 65});
    CHECK(ids_of(true, false, text) == Ids{64, 50257, 50257, 50257, 65});
    const std::string many(2'000'000, '\n');  // quadratic time would take an hour
    CHECK(ids_of(true, true, many) == Ids{50257});
    CHECK(ids_of(false, true, many) == Ids(1'000'000, 50257));
}

TEST_CASE("added tokens whose content is also a spelling of bytes in the vocabulary") {
    const test::TempDir dir;
    const Json base = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
    const auto load = [&](const std::string& content, i32 id, bool ignore_merges) {
        Json json = base;
        json["added_tokens"].push_back({{"id", id}, {"content", content}, {"special", true}});
        json["model"]["ignore_merges"] = ignore_merges;
        if (ignore_merges) std::erase(json["model"]["merges"].get_ref<Json::array_t&>(), "Ġt he");
        io::write_file(dir / "tokenizer.json", json.dump(), io::Overwrite::yes);
        return load_hf_tokenizer(dir.path(), SpecialInText::parse);
    };
    const auto back = [](const Tokenizer& tokenizer, const std::vector<i32>& ids) {
        std::string text;
        tokenizer.decode(ids, text);
        return text;
    };
    using Ids = std::vector<i32>;
    // The ids of " " and " the", which BPE also produces.
    const auto space = load("Ġ", 220, false);
    CHECK(space->encode("a Ġ the  b") == Ids{64, 220, 220, 262, 220, 275});
    CHECK(back(*space, {64, 220, 220, 262, 220, 275}) == "a   the  b");
    for (const bool ignore_merges : {false, true}) {
        const auto the = load("Ġthe", 262, ignore_merges);
        CHECK(the->encode("a the Ġthe") == Ids{64, 262, 220, 262});
        CHECK(back(*the, {64, 262}) == "a the");
    }
    // BPE does not produce this token, so its content is literal.
    const auto own = load("<é>", 50257, false);
    CHECK(own->encode("a<é>é") == Ids{64, 50257, 2634});
    CHECK(back(*own, {64, 50257, 2634}) == "a<é>é");
}

TEST_CASE("the id buffer has room for a normalized text that is longer than the text") {
    const test::TempDir dir;
    const auto load = [&](const Json& steps) {
        Json json = whole(io::read_json(LM_TEST_DIR "/golden/text/hf-styles.json")["gpt2"]);
        json["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
        io::write_file(dir / "tokenizer.json", json.dump(), io::Overwrite::yes);
        return load_hf_tokenizer(dir.path(), SpecialInText::parse);
    };
    const auto replace = [](const char* pattern, const std::string& content) {
        return Json{{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
    };
    // An upper bound of the length, doubled 64 times, would overflow 64 bits.
    const Json twice = replace("\x01", "\x01\x01");
    Json steps = Json::array();
    for (int i = 0; i < 64; ++i) steps.push_back(twice);
    const auto doubled = load(steps);
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += "xyzw ";
    CHECK(doubled->encode(text) == load(Json::array())->encode(text));

    const auto folded = load({{{"type", "NFKC"}}, {{"type", "Lowercase"}}, replace(" ", "\u2581")});
    IdBuffer ids(true);
    folded->make_encoder(-1)->encode(text, ids);
    CHECK(ids.capacity() <= sizeof(i32) * (text.size() / 5 * 7 + 16));
}

// The ids of AutoTokenizer of transformers 4.44.2, with tokenizers 0.19.1, for GPT-2's files.
TEST_CASE("vocab.json and merges.txt are read as the class that a file next to them states") {
    const std::string text = "In 2024 I'LL\n\n  e\u0301<|endoftext|><think>ok<|im_end|>";
    using Ids = std::vector<i32>;
    const Ids gpt2{818, 48609, 314, 6,   3069, 628, 220, 304, 136, 223, 50256,
                   27,  14925, 29,  482, 27,   91,  320, 62,  437, 91,  29};
    const Ids qwen2{818,   220, 17,    15, 17,  19, 314, 6,   3069, 628, 220, 38251,
                    50256, 27,  14925, 29, 482, 27, 91,  320, 62,   437, 91,  29};
    const Ids added{818,  220, 17,  15,    17,    19,    314, 6,
                    3069, 628, 220, 38251, 50256, 50258, 482, 50257};
    const Json decoder = {
        {"50256", {{"content", "<|endoftext|>"}, {"special", true}}},
        {"50257", {{"content", "<|im_end|>"}, {"special", true}}},
        {"50258", {{"content", "<think>"}, {"special", false}, {"normalized", false}}}};
    struct Case {
        Json config, model, added;
        i32 eod;
        Ids ids;
    };
    Ids with_bos = gpt2;
    with_bos.insert(with_bos.begin(), 50256);
    Ids with_space = gpt2;
    with_space[0] = 554;
    with_space[11] = 1279;
    const auto of = [](const char* name) { return Json{{"tokenizer_class", name}}; };
    const auto of_gpt2 = [](const char* flag) {
        return Json{{"tokenizer_class", "GPT2Tokenizer"}, {flag, true}};
    };
    const Case cases[] = {
        {of("Qwen2Tokenizer"), {}, {}, 50256, qwen2},
        {{{"tokenizer_class", "Qwen2TokenizerFast"},
          {"eos_token", "<|im_end|>"},
          {"added_tokens_decoder", decoder}},
         {},
         {},
         50257,
         added},
        {of("Qwen2Tokenizer"), {}, {{"<think>", 50258}, {"<|im_end|>", 50257}}, 50256, added},
        {{}, {{"model_type", "qwen2"}}, {}, 50256, qwen2},
        {{}, {{"model_type", "llama"}, {"tokenizer_class", "Qwen2Tokenizer"}}, {}, 50256, qwen2},
        {of("GPT2TokenizerFast"), {}, {}, 50256, gpt2},
        {of("CodeGenTokenizer"), {{"model_type", "qwen2"}}, {}, 50256, gpt2},
        {of_gpt2("add_bos_token"), {}, {}, 50256, with_bos},
        {of_gpt2("add_prefix_space"), {}, {}, 50256, with_space}};
    const auto make = [](const test::TempDir& dir, const Case& c) {
        for (const char* name : {"vocab.json", "merges.txt"}) {
            io::write_file(dir / name,
                           io::read_file(share_file(fmt::format("tokenizers/gpt2/{}", name))),
                           io::Overwrite::no);
        }
        for (const auto& [name, json] :
             {std::pair{"tokenizer_config.json", &c.config}, std::pair{"config.json", &c.model},
              std::pair{"added_tokens.json", &c.added}}) {
            if (!json->is_null()) io::write_file(dir / name, json->dump(), io::Overwrite::no);
        }
    };
    for (const Case& c : cases) {
        const test::TempDir dir;
        make(dir, c);
        INFO(c.config << c.model << c.added);
        const auto choice = choice_in(dir.path());
        REQUIRE(choice);
        const auto tokenizer = load_tokenizer(*choice);
        CHECK(tokenizer->encode(text) == c.ids);
        CHECK(tokenizer->eod() == c.eod);
        CHECK(load_tokenizer({.type = "HFTokenizer", .model = dir.path()})->digest() ==
              tokenizer->digest());
        CHECK(files_of(*choice).size() ==
              (c.config.is_null() ? 2U : 3U) + (c.added.is_null() ? 0 : 1));
    }
    // Without a class the files are GPT-2's, and another class is an error.
    const test::TempDir plain;
    make(plain, {});
    CHECK(load_tokenizer(*choice_in(plain.path()))->type() == "GPT2BPETokenizer");
    for (const char* name : {"RobertaTokenizer", "WhisperTokenizer", "PreTrainedTokenizerFast"}) {
        const test::TempDir dir;
        make(dir, {of(name), {}, {}, 0, {}});
        CHECK_THROWS_WITH(load_tokenizer(*choice_in(dir.path())),
                          HasInOrder(name, "save_pretrained"));
    }
    // The named type stays GPT-2's, with a note of the class.
    const test::TempDir dir;
    make(dir, {of("Qwen2Tokenizer"), {}, {}, 0, {}});
    const auto named = load_tokenizer({.type = "GPT2BPETokenizer",
                                       .vocab_file = dir / "vocab.json",
                                       .merge_file = dir / "merges.txt",
                                       .special = "parse"});
    CHECK(named->encode(text) == gpt2);
}
