// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json/read_tokenizer.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/other_format.hpp"
#include "text/bpe/vocabulary.hpp"
#include "text/bpe_tokenizer.hpp"
#include "text/gpt2_tokenizer.hpp"
#include "text/normalizer/normalizer.hpp"
#include "text/tokenizer_json/component.hpp"
#include "text/tokenizer_json/pretokenizer_component.hpp"
#include "text/tokenizer_json/special_tokens.hpp"

namespace lm::text {
namespace {

// Returns the value of the member `key` of the file `path`.
io::Json small(const simdjson::dom::element& value, const std::string& path, std::string_view key) {
    return io::parse_json(simdjson::minify(value), fmt::format("{}: '{}'", path, key));
}

// Returns whether `text` has several lines, the first of which is a whole JSON object.
bool is_json_lines(std::string_view text) {
    const size_t end = text.find('\n');
    return end != text.npos && text.find_first_not_of(" \t\r\n", end) != text.npos &&
           io::json_or_null(text.substr(0, end)).is_object();
}
// A parsed tokenizer.json. The vocabulary and the merges of the model, which are nearly the whole
// file, are kept as simdjson elements. The rest becomes a small JSON document.
class TokenizerJsonFile {
  public:
    // Reads and parses `path`. Call it once, before the other functions. Errors are Error(failure)
    // with the path.
    void load(const std::string& path) {
        const std::string text = io::read_file(path);
        try {
            read(parser_.parse(text), path);
        } catch (const simdjson::simdjson_error& error) {
            if (is_json_lines(text)) {
                run_error(
                    path,
                    "not a tokenizer.json: expected one JSON object with the key 'model', got "
                    "JSON Lines");
            }
            io::parse_json(text, path);  // its error contains the position
            run_error(path, "not valid JSON: {}", error.what());
        }
    }

    const io::Json& rest() const { return rest_; }  // everything except vocab() and merges()
    // The tables of the model, valid while this object exists. nullopt if they are missing or have
    // an unexpected type.
    const std::optional<simdjson::dom::object>& vocab() const { return vocab_; }
    const std::optional<simdjson::dom::array>& merges() const { return merges_; }

  private:
    void read(const simdjson::dom::element& whole, const std::string& path) {
        if (!whole.is_object()) {
            rest_ = io::parse_json(simdjson::minify(whole), path);
            return;
        }
        rest_ = io::Json::object();
        for (const auto& [key, value] : simdjson::dom::object(whole)) {
            const bool has_tables = key == "model" && value.is_object();
            rest_[std::string(key)] =
                has_tables ? read_model(value, path) : small(value, path, key);
        }
    }
    io::Json read_model(const simdjson::dom::object& model, const std::string& path) {
        io::Json rest = io::Json::object();
        for (const auto& [key, value] : model) {
            if (key == "vocab" && value.is_object()) {
                vocab_ = simdjson::dom::object(value);
            } else if (key == "merges" && value.is_array()) {
                merges_ = simdjson::dom::array(value);
            } else {
                rest[std::string(key)] = small(value, path, key);
            }
        }
        return rest;
    }

    simdjson::dom::parser parser_;
    io::Json rest_;
    std::optional<simdjson::dom::object> vocab_;
    std::optional<simdjson::dom::array> merges_;
};

struct Template {
    std::vector<i32> prefix, suffix;  // ids before and after every text
};

using io::Json;

// The normalizer and the post-processor. The functions throw Error(failure) with `path` and the
// option for an option that they do not apply exactly as Hugging Face tokenizers do, because the
// ids would differ.

struct KnownForm {
    const char* type;
    NormalizerStep::Kind kind;
};

constexpr KnownForm known_forms[] = {
    {"NFC", NormalizerStep::Kind::nfc},
    {"NFD", NormalizerStep::Kind::nfd},
    {"NFKC", NormalizerStep::Kind::nfkc},
    {"NFKD", NormalizerStep::Kind::nfkd},
    {"Lowercase", NormalizerStep::Kind::lowercase},
    {"StripAccents", NormalizerStep::Kind::strip_accents},
};

// Returns the literal text of a pattern. Throws for a regular expression.
std::string literal_pattern(const Component& part) {
    const Json& pattern = part.get("pattern");
    if (!pattern.is_object() || pattern.size() != 1) part.refuse_type();
    if (!pattern.contains("String"))
        refuse(part.path(), "the pattern {} of {}", pattern.dump(), part.type());
    auto text = io::json_get<std::string>(pattern, "String", part.path());
    if (text.empty()) refuse(part.path(), "the empty pattern of {}", part.type());
    return text;
}

NormalizerStep strip_step(const Component& part) {
    part.only({"strip_left", "strip_right"});
    NormalizerStep step{NormalizerStep::Kind::strip};
    step.left = part.flag("strip_left", true);
    step.right = part.flag("strip_right", true);
    return step;
}

NormalizerStep replace_step(const Component& part) {
    part.only({"pattern", "content"});
    return {NormalizerStep::Kind::replace, literal_pattern(part), part.text("content")};
}

void read_steps(const Json& json, const std::string& path, std::vector<NormalizerStep>& steps) {
    const Component part(json, "normalizer", path);
    const std::string& type = part.type();
    const auto form = std::ranges::find(known_forms, type, &KnownForm::type);
    if (type == "Sequence") {
        part.only({"normalizers"});
        for (const Json& inner : part.array("normalizers")) read_steps(inner, path, steps);
    } else if (form != std::end(known_forms)) {
        part.only({});
        steps.push_back({form->kind});
    } else if (type == "Strip") {
        steps.push_back(strip_step(part));
    } else if (type == "Replace") {
        steps.push_back(replace_step(part));
    } else if (type == "Prepend") {
        part.only({"prepend"});
        const std::string text = part.text("prepend");
        if (text.empty()) refuse(part.path(), "the normalizer Prepend of an empty text");
        steps.push_back({NormalizerStep::Kind::prepend, "", text});
    } else {
        part.refuse_type();
    }
}

i32 template_id(const Json& value, const std::string& path) {
    const i64 id = io::json_as<i64>(value, "an id of the post_processor", path);
    if (id < 0 || id >= i64{1} << 21)
        run_error(path, "post_processor: id {} is out of range: expected 0 to 2097151", id);
    return static_cast<i32>(id);
}

// Returns the id of a pair such as ["</s>", 2]. BertProcessing and RobertaProcessing have two
// pairs.
i32 pair_id(const Component& part, const char* key) {
    const Json& pair = part.array(key);
    if (pair.size() != 2) run_error(part.path(), "'{}' of {} is not [token, id]", key, part.type());
    return template_id(pair[1], part.path());
}

Template single_template(const Component& part) {
    part.only({"single", "pair", "special_tokens"});
    Template result;
    int n_texts = 0;
    for (const Json& item : part.array("single")) {
        if (item.is_object() && item.contains("Sequence")) {
            ++n_texts;
            continue;
        }
        const auto token = io::json_get<Json>(item, "SpecialToken", part.path());
        const auto name = io::json_get<std::string>(token, "id", part.path());
        const Json& tokens = part.get("special_tokens");
        if (!tokens.is_object() || !tokens.contains(name))
            run_error(part.path(), "post_processor: token '{}' is not in its special_tokens", name);
        for (const Json& id : io::json_get<Json>(tokens.at(name), "ids", part.path()))
            (n_texts > 0 ? result.suffix : result.prefix).push_back(template_id(id, part.path()));
    }
    if (n_texts != 1) refuse(part.path(), "a template with {} texts", n_texts);
    return result;
}

Template one_post_processor(const Json& json, const std::string& path) {
    const Component part(json, "post_processor", path);
    if (part.type() == "TemplateProcessing") return single_template(part);
    if (part.type() == "ByteLevel") return {};  // ByteLevel changes only offsets, no ids
    if (part.type() != "BertProcessing" && part.type() != "RobertaProcessing") part.refuse_type();
    return {{pair_id(part, "cls")}, {pair_id(part, "sep")}};
}

Normalizer read_normalizer(const Json& json, const std::string& path) {
    std::vector<NormalizerStep> steps;
    if (!json.is_null()) read_steps(json, path, steps);
    return Normalizer(std::move(steps));
}

Template read_post_processor(const Json& json, const std::string& path) {
    if (json.is_null()) return {};
    const Component part(json, "post_processor", path);
    if (part.type() != "Sequence") return one_post_processor(json, path);
    part.only({"processors"});
    Template whole;
    for (const Json& inner : part.array("processors")) {  // each adds ids around the earlier ids
        const Template one = one_post_processor(inner, path);
        const bool has_one = !whole.prefix.empty() || !whole.suffix.empty();
        if (has_one && (!one.prefix.empty() || !one.suffix.empty())) {
            run_error(
                path,
                "post_processor: two processors of a Sequence add tokens, which lm-utils does "
                "not support: use one TemplateProcessing");
        }
        whole.prefix.insert(whole.prefix.begin(), one.prefix.begin(), one.prefix.end());
        whole.suffix.insert(whole.suffix.end(), one.suffix.begin(), one.suffix.end());
    }
    return whole;
}

using io::Json;

constexpr i64 max_ids = i64{1} << 21;

// A class of transformers that reads vocab.json and merges.txt.
struct PairClass {
    std::string_view name;
    PretokenizerRule rule;
    bool adds_space_and_bos;  // reads add_prefix_space and add_bos_token
    std::vector<NormalizerStep> normalizer;
    std::array<DefaultToken, 3> defaults;
};

// Returns the class `name`, with or without "Fast"; nullptr: lm-utils does not read its files.
const PairClass* pair_class(std::string_view name) {
    constexpr std::string_view end = "<|endoftext|>";
    constexpr std::array<DefaultToken, 3> gpt2{
        {{"bos_token", end}, {"eos_token", end}, {"unk_token", end}}};
    static const std::array<PairClass, 4> classes{
        {{"GPT2Tokenizer", PretokenizerRule::gpt2, true, {}, gpt2},
         {"CodeGenTokenizer", PretokenizerRule::gpt2, true, {}, gpt2},
         // transformers 4 cannot open them without a tokenizer.json, transformers 5 can.
         {"GPTNeoXTokenizer", PretokenizerRule::gpt2, true, {}, gpt2},
         {"Qwen2Tokenizer",
          PretokenizerRule::qwen2,
          false,
          {{NormalizerStep::Kind::nfc}},
          {{{"eos_token", end}, {"unk_token", end}, {"pad_token", end}}}}}};
    constexpr std::string_view fast = "Fast";
    if (name.ends_with(fast)) name.remove_suffix(fast.size());
    const auto found = std::ranges::find(classes, name, &PairClass::name);
    return found == classes.end() ? nullptr : &*found;
}

class Reader {
  public:
    Reader(std::string path, SpecialInText special) : path_(std::move(path)), json_(file_.rest()) {
        parts_.special = special;
    }

    BpeTokenizerParts read() {
        file_.load(path_);
        if (json_.contains("config") && json_.contains("vocab")) {
            run_error(path_,
                      "is a tekken.json of mistral-common, which is not supported: give the "
                      "tokenizer.json of the model");
        }
        if (!json_.is_object() || !json_.contains("model")) {
            run_error(path_, "not a tokenizer.json: {}", other_content());
        }
        const Component whole(json_, "tokenizer", path_);
        check_keys();
        const auto version = io::json_get<std::string>(json_, "version", path_);
        if (version != "1.0")
            run_error(path_, "version {} is not supported: expected 1.0", version);
        for (const char* key : {"truncation", "padding"}) {
            if (!whole.get(key).is_null())
                note("{}: '{}' is ignored: every text is encoded in full", path_, key);
        }
        parts_.type = "HFTokenizer";
        parts_.origin = path_;
        read_model(Component(json_.at("model"), "model", path_));
        parts_.normalizer = read_normalizer(whole.get("normalizer"), path_);
        const PretokenizerSettings pre = read_pretokenizer(whole.get("pre_tokenizer"), path_);
        parts_.rule = pre.rule;
        parts_.prefix_space = pre.prefix_space;
        for (const Json& token : whole.get("added_tokens")) read_added(token);
        NamedTokens named = read_named_tokens(path_);
        for (const AddedToken& token : named.listed) add_listed(token, named);
        for (AddedToken& token : named.tokens) add_named(std::move(token));
        note_missing();
        note_other_rule(named);
        Template around = read_post_processor(whole.get("post_processor"), path_);
        // As transformers 4 and 5, which make the post_processor of this class themselves.
        if (is_class(named, "GPTNeoXTokenizer")) around = {};
        check_template(around);
        note_other_ids(named, around);
        if (named.splits_special) {
            note(
                "{}: split_special_tokens is true, so transformers cuts special tokens in a text "
                "as "
                "any text: lm-preprocess does so with --special-in-text plain",
                named.config_path);
        }
        parts_.prefix = std::move(around.prefix);
        parts_.suffix = std::move(around.suffix);
        parts_.eod = find_eod(named);
        return std::move(parts_);
    }

    // Reads vocab.json, whose path the reader has, and merges.txt next to it.
    BpeTokenizerParts read_pair(const PairClass& of, const std::string& merges_path) {
        parts_.type = "HFTokenizer";
        parts_.origin = path_;
        parts_.files = read_gpt2_files(path_, merges_path);
        n_vocab_ = std::ssize(parts_.files.tokens);
        index_.emplace(parts_.files.tokens, path_);
        parts_.rule = of.rule;
        parts_.normalizer = Normalizer(of.normalizer);
        NamedTokens named = read_named_tokens(path_, of.defaults);
        for (const AddedToken& token : named.listed) {
            const auto [at, is_new] = added_.emplace(token.content, parts_.added.size());
            if (!is_new || token.content.empty()) continue;
            check_id(token.content, token.id);
            check_normalized(token);
            parts_.added.push_back(token);
        }
        for (AddedToken& token : named.tokens) add_named(std::move(token));
        note_missing();
        parts_.eod = find_eod(named);
        if (!of.adds_space_and_bos) return std::move(parts_);
        parts_.prefix_space = named.prefix_space;
        const auto bos = named.bos ? added_id(*named.bos) : std::nullopt;
        if (named.adds_bos.value_or(false) && bos) parts_.prefix = {*bos};
        return std::move(parts_);
    }

  private:
    // Returns what the file without a model is, and the remedy, if it belongs to a tokenizer or a
    // model.
    std::string_view other_content() const {
        const auto has = [&](const char* key) { return json_.is_object() && json_.contains(key); };
        if (has("tokenizer_class") || has("added_tokens_decoder"))
            return "it is a tokenizer_config.json: give the tokenizer.json in its directory";
        if (has("model_type") || has("architectures"))
            return "it is the config.json of a model: give the tokenizer.json in its directory";
        const bool has_ids =
            json_.is_object() && !json_.empty() &&
            std::ranges::all_of(json_, [](const Json& id) { return id.is_number_integer(); });
        if (has_ids) {
            return "it is a vocab.json, which needs its merges.txt: give --tokenizer-type "
                   "GPT2BPETokenizer with --vocab-file and --merge-file";
        }
        return "the key 'model' is missing";
    }

    void check_keys() const {
        constexpr std::string_view known[] = {
            "version",    "truncation",    "padding",        "added_tokens", "model",
            "normalizer", "pre_tokenizer", "post_processor", "decoder",  // the decoder changes no
                                                                         // id
        };
        for (const auto& [key, value] : json_.items()) {
            if (std::ranges::find(known, key) == std::end(known))
                refuse(path_, "the key '{}' of a tokenizer.json", key);
        }
    }

    void read_model(const Component& model) {
        if (model.type() != "BPE" && !model.type().empty()) model.refuse_type();
        // These change only the ids of bytes without a token.
        model.only({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                    "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
        const Json& dropout = model.get("dropout");
        if (!dropout.is_null() && (!dropout.is_number() || dropout.get<double>() != 0.0))
            refuse(path_, "model option 'dropout'");
        for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
            const Json& value = model.get(key);
            if (!value.is_null() && value != "") refuse(path_, "model option '{}'", key);
        }
        parts_.ignore_merges = model.flag("ignore_merges");
        if (!file_.vocab()) run_error(path_, "'vocab' is missing or does not map tokens to ids");
        read_vocab(*file_.vocab());
        index_.emplace(parts_.files.tokens, path_);
        if (!file_.merges())
            run_error(path_, "model {}: 'merges' is missing or not a list", model.type());
        read_merges(*file_.merges());
        read_unknown(model);
        warn_of_no_merges();
    }

    // With fuse_unk and byte_fallback, a text with such a byte stays an error.
    void read_unknown(const Component& model) {
        const Json& token = model.get("unk_token");
        if (!token.is_string() || model.flag("fuse_unk") || model.flag("byte_fallback")) return;
        const std::string name = token.get<std::string>();
        const i32 id = index_->find(index_->seek(name));
        if (id >= 0) parts_.unknown = id;
    }

    void read_merges(const simdjson::dom::array& merges) {
        MergeReader reader(*index_, parts_.files.tokens.size(), path_);
        i64 n = 0;
        for (const simdjson::dom::element merge : merges) read_merge(merge, n++, reader);
        parts_.files.merges = reader.finish();
    }

    // Warns of a large vocabulary without merges, because the merges were probably lost. Does not
    // throw, because Hugging Face tokenizers accepts such a file.
    void warn_of_no_merges() const {
        constexpr i64 max_of_bytes = 1024;  // enough for all bytes and many special tokens
        if (parts_.files.merges.empty() && !parts_.ignore_merges && n_vocab_ > max_of_bytes) {
            warn("{}: {} tokens and no merges: text is encoded as single bytes", path_, n_vocab_);
        }
    }

    void read_vocab(const simdjson::dom::object& vocab) {
        std::vector<std::string>& tokens = parts_.files.tokens;
        tokens.resize(std::min(vocab.size(), static_cast<size_t>(max_ids)));
        for (const auto& [token, value] : vocab) {
            const i64 id = value.is_int64() ? i64{value} : -1;
            if (id < 0 || id >= max_ids)
                run_error(path_, "token '{}': id is not an integer from 0 to 2097151", token);
            ++n_vocab_;
            const auto at = static_cast<size_t>(id);
            if (at >= tokens.size()) tokens.resize(at + 1);
            if (!tokens[at].empty())
                run_error(path_, "duplicate id {} (tokens '{}' and '{}')", id, tokens[at], token);
            tokens[at] = token;
        }
    }

    void read_merge(const simdjson::dom::element& merge, i64 n, MergeReader& merges) const {
        const auto where = [&] { return fmt::format("{}: merge {}", path_, n); };
        std::string_view text;
        simdjson::dom::array pair;
        if (merge.get(pair) == simdjson::SUCCESS) {
            std::string_view left, right;
            if (pair.size() != 2 || pair.at(0).get(left) != simdjson::SUCCESS ||
                pair.at(1).get(right) != simdjson::SUCCESS)
                run_error(where(), "not a pair of tokens");
            return merges.add(left, right, where);
        }
        const bool is_text = merge.get(text) == simdjson::SUCCESS;
        const size_t space = text.find(' ');
        if (!is_text || space == text.npos || text.find(' ', space + 1) != text.npos)
            run_error(where(), "not a pair of tokens");
        merges.add(text.substr(0, space), text.substr(space + 1), where);
    }

    void read_added(const Json& json) {
        const Component part(json, "added token", path_);
        part.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
        AddedToken token;
        token.content = part.text("content");
        const i64 id = io::json_get<i64>(json, "id", path_);
        token.special = part.flag("special");
        token.normalized = part.flag("normalized", !token.special);
        token.single_word = part.flag("single_word");
        token.lstrip = part.flag("lstrip");
        token.rstrip = part.flag("rstrip");
        if (token.content.empty())
            run_error(path_,
                      "added_tokens: the token with id {} has an empty content: remove this token",
                      id);
        const auto [known, is_new] = added_.emplace(token.content, parts_.added.size());
        if (is_new) check_id(token.content, id);
        token.id = static_cast<i32>(id);
        if (!is_new) return check_again(token, parts_.added[known->second]);
        check_normalized(token);
        parts_.added.push_back(std::move(token));
    }

    // Hugging Face tokenizers ignores a duplicate token. Here a duplicate with other flags or
    // another id is an error.
    void check_again(const AddedToken& token, const AddedToken& before) const {
        if (token != before)
            run_error(path_, "added token '{}' is listed twice, with different flags or ids",
                      token.content);
    }

    // Hugging Face tokenizers ignores the id in the file. An added token gets its id in the
    // vocabulary, or if it is not in the vocabulary, the next free id. Here another id in the file
    // is an error.
    void check_id(const std::string& content, i64 id) {
        const i32 in_vocab = index_->find(content);
        const i64 expected = in_vocab < 0 ? std::max(n_vocab_, next_added_) : in_vocab;
        if (id != expected)
            run_error(path_,
                      "added token '{}': expected id {}, got {}: Hugging Face tokenizers gives it "
                      "the expected id: correct the id, or let transformers write the file again: "
                      "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
                      content, expected, id);
        next_added_ = std::max(next_added_, id + 1);
    }

    // Adds a token of the list of added tokens. Its flags replace those of the tokenizer.json, as
    // in transformers. Hugging Face tokenizers 0.19 also searches for a token where the old flag
    // `normalized` says; 0.23 does not.
    void add_listed(AddedToken token, const NamedTokens& named) {
        const auto known = added_.find(token.content);
        if (known != added_.end()) token.id = parts_.added[known->second].id;
        if (known != added_.end() && token == parts_.added[known->second]) return;
        if (std::ranges::count(named.tokens, token.content, &AddedToken::content) > 0)
            token.special = true;
        if (known == added_.end()) return add_named(std::move(token));
        check_normalized(token);
        parts_.added[known->second] = std::move(token);
    }

    // Adds a token of tokenizer_config.json. If the token is only in the vocabulary, it becomes an
    // added token, as in transformers. If it is not in the vocabulary, transformers extends the
    // vocabulary. Here such a token is ignored with a note, because the vocabulary size of a model
    // must not depend on tokenizer_config.json.
    void add_named(AddedToken token) {
        if (token.content.empty() || added_.contains(token.content)) return;
        token.id = index_->find(token.content);
        if (token.id < 0) {
            missing_.insert(token.content);
            return;
        }
        check_normalized(token);
        added_.emplace(token.content, parts_.added.size());
        parts_.added.push_back(std::move(token));
    }

    void check_normalized(const AddedToken& token) const {
        Normalizer::Buffers buffers;
        if (token.normalized && parts_.normalizer.apply(token.content, buffers).empty())
            refuse(path_, "added token '{}', which the normalizer makes empty,", token.content);
    }

    static bool is_class(const NamedTokens& named, std::string_view name) {
        return named.tokenizer_class == name || named.tokenizer_class == std::string(name) + "Fast";
    }

    void check_template(const Template& around) const {
        const i64 n = std::max(static_cast<i64>(parts_.files.tokens.size()), next_added_);
        for (const auto* ids : {&around.prefix, &around.suffix}) {
            for (const i32 id : *ids) {
                if (id >= n)
                    run_error(path_,
                              "post_processor: id {} is out of range: the tokenizer has {} ids", id,
                              n);
            }
        }
    }

    // transformers 4 made the template of some classes from add_bos_token and add_eos_token.
    // transformers 5 uses the post_processor, as this reader does.
    void note_other_ids(const NamedTokens& named, const Template& around) const {
        const auto check = [&](const char* key, std::optional<bool> adds, const auto& token,
                               const std::vector<i32>& ids) {
            const std::optional<i32> id = token ? added_id(*token) : std::nullopt;
            if (!adds || !id || *adds == (std::ranges::count(ids, *id) > 0)) return;
            note(
                "{}: {} is {}, but the post_processor of {} {} '{}': the ids are those of "
                "transformers 5; transformers 4 follows {} for some classes",
                named.config_path, key, *adds, path_, *adds ? "adds no" : "adds", *token, key);
        };
        check("add_bos_token", named.adds_bos, named.bos, around.prefix);
        check("add_eos_token", named.adds_eos, named.eos, around.suffix);
    }

    void note_missing() const {
        if (missing_.empty()) return;
        const size_t more = missing_.size() - 1;
        note(
            "{}: lacks '{}'{}, which other files of the tokenizer list: such texts are cut as any "
            "text, where transformers adds ids: to add them, save the tokenizer with transformers",
            path_, *missing_.begin(), more == 0 ? "" : fmt::format(" and {} more tokens", more));
    }

    // For these classes, AutoTokenizer of transformers 5 replaces the pre_tokenizer.
    void note_other_rule(const NamedTokens& named) const {
        constexpr std::pair<std::string_view, PretokenizerRule> classes[] = {
            {"GPT2Tokenizer", PretokenizerRule::gpt2},
            {"GPTNeoXTokenizer", PretokenizerRule::gpt2},
            {"CodeGenTokenizer", PretokenizerRule::gpt2},
            {"CohereTokenizer", PretokenizerRule::starcoder},
            {"Qwen2Tokenizer", PretokenizerRule::qwen2},
        };
        for (const auto& [name, rule] : classes) {
            if (!is_class(named, name)) continue;
            if (parts_.rule == rule && parts_.prefix_space == named.prefix_space) return;
            note(
                "{}: the ids follow the pre_tokenizer of {}; AutoTokenizer of transformers 5 "
                "replaces it because tokenizer_class is {}: PreTrainedTokenizerFast keeps it",
                named.config_path, path_, named.tokenizer_class);
        }
    }

    std::optional<i32> added_id(std::string_view content) const {
        const auto at = added_.find(std::string(content));
        return at == added_.end() ? std::nullopt : std::optional(parts_.added[at->second].id);
    }

    // Returns the id of eos_token. Without it, returns the id of the first of end_of_document_names
    // that is an added token.
    std::optional<i32> find_eod(const NamedTokens& named) const {
        if (named.eos) {
            if (const auto id = added_id(*named.eos)) return id;
            run_error(named.eos_path,
                      "eos_token '{}' is not an added token of {}: set eos_token to an added token",
                      *named.eos, path_);
        }
        for (const std::string_view name : end_of_document_names) {
            if (const auto id = added_id(name)) return id;
        }
        return std::nullopt;
    }

    const std::string path_;
    TokenizerJsonFile file_;
    const Json& json_;
    BpeTokenizerParts parts_;
    std::unordered_map<std::string, size_t> added_;  // content to index in parts_.added
    std::set<std::string> missing_;                  // named tokens that are in no vocabulary
    std::optional<TokenIndex> index_;                // spellings of the model's tokens
    i64 n_vocab_ = 0;                                // number of tokens of the model
    i64 next_added_ = 0;                             // the largest id of an added token + 1
};

}  // namespace

std::string hf_tokenizer_path(const std::string& path) {
    return io::is_directory(path) ? (std::filesystem::path(path) / "tokenizer.json").string()
                                  : path;
}

namespace {

bool has_pair(const std::string& directory) {
    return io::exists(directory + "/vocab.json") && io::exists(directory + "/merges.txt");
}

BpeTokenizerParts read_pair(const std::string& directory, SpecialInText special) {
    const std::string name = tokenizer_class_in(directory);
    const PairClass* found = pair_class(name);
    if (!found) {
        usage_error(directory,
                    "has vocab.json and merges.txt of the class {}, which lm-utils reads only from "
                    "a tokenizer.json: let transformers write one: "
                    "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
                    name);
    }
    return Reader(directory + "/vocab.json", special).read_pair(*found, directory + "/merges.txt");
}

// Throws Error(usage) for a directory without tokenizer.json, and names what it has instead.
void require_tokenizer_json(const std::string& directory) {
    if (io::exists(hf_tokenizer_path(directory))) return;
    for (const char* name : {"tokenizer.model", "spiece.model", "tekken.json", "vocab.txt"}) {
        const std::string path = directory + "/" + name;
        if (!io::exists(path)) continue;
        const auto format = io::other_format_of(path);
        if (!format.empty()) run_error(path, "is {}", format);
        usage_error(directory,
                    "has {}, but no tokenizer.json: let transformers write one: "
                    "AutoTokenizer.from_pretrained(DIR).save_pretrained(OUT)",
                    name);
    }
    if (has_pair(directory)) {
        usage_error(directory,
                    "has vocab.json and merges.txt, but no tokenizer.json: give --tokenizer-type "
                    "GPT2BPETokenizer with --vocab-file and --merge-file");
    }
    usage_error(directory, "has no tokenizer.json: give the directory of a tokenizer");
}

}  // namespace

bool is_pair_of_class(const std::string& directory) {
    return !io::exists(hf_tokenizer_path(directory)) && has_pair(directory) &&
           !tokenizer_class_in(directory).empty();
}

NamedTokens named_tokens_in(const std::string& directory) {
    const PairClass* found = pair_class(tokenizer_class_in(directory));
    return read_named_tokens(
        hf_tokenizer_path(directory),
        found ? std::span<const DefaultToken>(found->defaults) : std::span<const DefaultToken>());
}

bool is_gpt2_class(std::string_view name) {
    const PairClass* found = pair_class(name);
    return found && found->rule == PretokenizerRule::gpt2;
}

std::shared_ptr<const Tokenizer> load_hf_tokenizer(const std::string& path, SpecialInText special) {
    if (io::is_directory(path) && is_pair_of_class(path))
        return std::make_shared<BpeTokenizer>(read_pair(path, special));
    if (io::is_directory(path)) require_tokenizer_json(path);
    return std::make_shared<BpeTokenizer>(Reader(hf_tokenizer_path(path), special).read());
}

}  // namespace lm::text
