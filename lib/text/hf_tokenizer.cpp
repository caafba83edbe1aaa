// SPDX-License-Identifier: Apache-2.0
// Hugging Face's tokenizer.json for byte-level BPE: everything in it is either done exactly or
// refused by name; nothing is skipped.
#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "text/bpe_tokenizer.hpp"

namespace lm::text {
namespace {

using io::Json;

struct KnownRegex {
    std::string_view pattern;
    SplitRule rule;
};

constexpr KnownRegex known_regexes[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     SplitRule::gpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     SplitRule::llama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     SplitRule::qwen2},
    {R"( ?[^(\s|[.,!?…。，、।۔،])]+)", SplitRule::bloom},
};

class Reader {
  public:
    Reader(const std::string& path, SpecialInText special)
        : path_(path), special_(special), json_(io::read_json(path)) {}

    BpeTokenizerParts read() {
        if (!json_.is_object() || !json_.contains("model"))
            run_error(path_, "is not a tokenizer.json: it has no model");
        const auto version = io::json_get<std::string>(json_, "version", path_);
        if (version != "1.0") run_error(path_, "has version {}, only 1.0 is known", version);
        refuse_present(json_, "truncation");
        refuse_present(json_, "padding");
        parts_.type = "HFTokenizer";
        parts_.origin = path_;
        read_model(json_.at("model"));
        read_normalizer(get(json_, "normalizer"));
        parts_.rule = rule_of(get(json_, "pre_tokenizer"));
        read_added();
        read_post_processor(get(json_, "post_processor"));
        parts_.eod = find_eod();
        return std::move(parts_);
    }

  private:
    static const Json& get(const Json& object, const char* key) {
        static const Json null;
        const auto at = object.find(key);
        return at == object.end() ? null : *at;
    }
    static std::string type_of(const Json& part) {
        return part.is_object() ? part.value("type", "") : "";
    }
    static bool is_true(const Json& object, const char* key, bool fallback = false) {
        const Json& value = get(object, key);
        return value.is_boolean() ? value.get<bool>() : fallback;
    }

    template <typename... Args>
    [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
        run_error(path_, "{} is not supported", fmt::format(format, std::forward<Args>(args)...));
    }
    void refuse_present(const Json& object, const char* key) const {
        if (!get(object, key).is_null()) refuse("'{}'", key);
    }
    void refuse_text(const Json& object, const char* key) const {
        const Json& value = get(object, key);
        if (value.is_string() && !value.get<std::string>().empty())
            refuse("model option '{}'", key);
    }

    void read_model(const Json& model) {
        const std::string type = model.value("type", "BPE");
        if (type != "BPE") refuse("model '{}'", type);
        const Json& dropout = get(model, "dropout");
        if (dropout.is_number() && dropout.get<double>() != 0.0) refuse("model option 'dropout'");
        refuse_text(model, "continuing_subword_prefix");
        refuse_text(model, "end_of_word_suffix");
        if (is_true(model, "byte_fallback")) refuse("model option 'byte_fallback'");
        parts_.whole_pieces = is_true(model, "ignore_merges");
        read_vocab(io::json_get<Json>(model, "vocab", path_));
        const TokenIndex index(parts_.files.tokens, path_);
        MergeReader merges(index, path_);
        i64 n = 0;
        for (const Json& merge : io::json_get<Json>(model, "merges", path_))
            read_merge(merge, n++, merges);
        parts_.files.merges = merges.take();
    }

    void read_vocab(const Json& vocab) {
        constexpr i64 most = i64{1} << 21;
        if (!vocab.is_object()) run_error(path_, "'vocab' is not an object of token: id");
        for (const auto& [token, value] : vocab.items()) {
            const i64 id = value.is_number_integer() ? value.get<i64>() : -1;
            if (id < 0 || id >= most) run_error(path_, "token '{}' has no usable id", token);
            const auto at = static_cast<size_t>(id);
            std::vector<std::string>& tokens = parts_.files.tokens;
            if (at >= tokens.size()) tokens.resize(at + 1);
            if (!tokens[at].empty())
                run_error(path_, "id {} stands twice ('{}' and '{}')", id, tokens[at], token);
            tokens[at] = token;
        }
    }

    void read_merge(const Json& merge, i64 n, MergeReader& merges) const {
        const std::string where = fmt::format("{}: merge {}", path_, n);
        if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
            return merges.add(merge[0].get<std::string>(), merge[1].get<std::string>(), where);
        }
        const std::string text = merge.is_string() ? merge.get<std::string>() : "";
        const size_t space = text.find(' ');
        if (space == text.npos || text.find(' ', space + 1) != text.npos)
            run_error(where, "is not a pair of tokens");
        merges.add(text.substr(0, space), text.substr(space + 1), where);
    }

    void read_normalizer(const Json& normalizer) const {
        if (normalizer.is_null()) return;
        if (type_of(normalizer) != "Sequence") refuse("normalizer '{}'", type_of(normalizer));
        for (const Json& part : get(normalizer, "normalizers")) read_normalizer(part);
    }

    void check_byte_level(const Json& part) const {
        if (is_true(part, "add_prefix_space", true))
            refuse("pre_tokenizer ByteLevel with add_prefix_space");
    }

    SplitRule rule_of(const Json& pre) const {
        const std::string type = type_of(pre);
        if (type == "ByteLevel") {
            check_byte_level(pre);
            return is_true(pre, "use_regex", true) ? SplitRule::gpt2 : SplitRule::none;
        }
        if (pre.is_null()) refuse("a tokenizer without the pre_tokenizer ByteLevel");
        if (type != "Sequence") refuse("pre_tokenizer '{}'", type);
        const Json& parts = get(pre, "pretokenizers");
        if (parts.size() == 1) return rule_of(parts[0]);
        if (parts.size() != 2 || type_of(parts[1]) != "ByteLevel" ||
            is_true(parts[1], "use_regex", true)) {
            refuse(
                "a pre_tokenizer Sequence that is not one Split and ByteLevel without use_regex");
        }
        check_byte_level(parts[1]);
        return split_rule(parts[0]);
    }

    SplitRule split_rule(const Json& split) const {
        if (type_of(split) != "Split") refuse("pre_tokenizer '{}'", type_of(split));
        const std::string behavior = split.value("behavior", "");
        if (behavior != "Isolated" || is_true(split, "invert"))
            refuse("Split with behavior '{}' or invert", behavior);
        const std::string pattern = get(split, "pattern").value("Regex", "");
        for (const KnownRegex& known : known_regexes) {
            if (pattern == known.pattern) return known.rule;
        }
        refuse("the Split pattern '{}'", pattern);
    }

    void read_added() {
        std::vector<SpecialToken> raw, normalized;
        for (const Json& token : get(json_, "added_tokens")) {
            const auto content = io::json_get<std::string>(token, "content", path_);
            const i64 id = io::json_get<i64>(token, "id", path_);
            if (content.empty() || id < 0 || id >= i64{1} << 21)
                run_error(path_, "added token '{}' is damaged", content);
            for (const char* key : {"single_word", "lstrip", "rstrip"}) {
                if (is_true(token, key)) refuse("'{}' of the added token '{}'", key, content);
            }
            check_id(content, id);
            parts_.added.push_back({content, static_cast<i32>(id)});
            (is_true(token, "normalized") ? normalized : raw).push_back(parts_.added.back());
        }
        if (special_ == SpecialInText::plain) return;
        // What is marked "normalized" is looked for after the rest, in the text between.
        if (!raw.empty()) parts_.special.push_back(std::move(raw));
        if (!normalized.empty()) parts_.special.push_back(std::move(normalized));
    }

    void check_id(const std::string& content, i64 id) const {
        const std::vector<std::string>& tokens = parts_.files.tokens;
        const auto at = static_cast<size_t>(id);
        if (at < tokens.size() && !tokens[at].empty() && tokens[at] != content) {
            run_error(path_, "added token '{}' has id {}, which is '{}' in the vocabulary", content,
                      id, tokens[at]);
        }
    }

    std::optional<i32> added_id(const std::string& content) const {
        const auto at = std::ranges::find(parts_.added, content, &SpecialToken::content);
        return at == parts_.added.end() ? std::nullopt : std::optional(at->id);
    }

    void read_post_processor(const Json& post) {
        const std::string type = type_of(post);
        if (post.is_null() || type == "ByteLevel") return;
        if (type == "Sequence") {
            for (const Json& part : get(post, "processors")) read_post_processor(part);
            return;
        }
        if (type != "TemplateProcessing") refuse("post_processor '{}'", type);
        bool behind = false;
        for (const Json& item : get(post, "single")) {
            if (item.contains("Sequence")) {
                behind = true;
                continue;
            }
            const std::string name = get(item, "SpecialToken").value("id", "");
            const std::optional<i32> id = added_id(name);
            if (!id) run_error(path_, "post_processor names '{}', which is no added token", name);
            (behind ? parts_.suffix : parts_.prefix).push_back(*id);
        }
    }

    // What Hugging Face keeps beside tokenizer.json; else the usual names.
    std::optional<i32> find_eod() const {
        const std::string config =
            (std::filesystem::path(path_).parent_path() / "tokenizer_config.json").string();
        if (io::exists(config)) {
            const Json json = io::read_json(config);
            const Json& eos = get(json, "eos_token");
            const std::string name = eos.is_string()   ? eos.get<std::string>()
                                     : eos.is_object() ? eos.value("content", "")
                                                       : "";
            if (const auto id = added_id(name)) return id;
        }
        for (const char* name : {"</s>", "<|endoftext|>", "<|end_of_text|>"}) {
            if (const auto id = added_id(name)) return id;
        }
        return std::nullopt;
    }

    const std::string& path_;
    SpecialInText special_;
    Json json_;
    BpeTokenizerParts parts_;
};

}  // namespace

std::shared_ptr<const Tokenizer> load_hf_tokenizer(const std::string& path, SpecialInText special) {
    const std::string file =
        io::is_directory(path) ? (std::filesystem::path(path) / "tokenizer.json").string() : path;
    return std::make_shared<BpeTokenizer>(Reader(file, special).read());
}

}  // namespace lm::text
