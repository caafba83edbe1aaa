// SPDX-License-Identifier: Apache-2.0
#include "text/gpt2_tokenizer.hpp"

#include <simdjson.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/file.hpp"
#include "io/other_format.hpp"
#include "text/bpe_tokenizer.hpp"

namespace lm::text {
namespace {

constexpr const char* end_of_document = "<|endoftext|>";

// Returns the tokens by id, in the spelling of the file.
std::vector<std::string> read_vocab(const std::string& path) {
    const std::string text = io::read_file(path);
    simdjson::dom::parser parser;
    std::vector<std::pair<std::string_view, i64>> entries;
    try {
        const simdjson::dom::object vocabulary = parser.parse(text);
        entries.reserve(vocabulary.size());
        for (const auto field : vocabulary)
            entries.emplace_back(field.key, field.value.get_int64());
    } catch (const simdjson::simdjson_error&) {
        if (const auto other = io::other_format(text); !other.empty())
            run_error(path, "is {}", other);
        run_error(path,
                  "truncated, or not a vocabulary: expected a JSON object of tokens and ids "
                  "such as {{\"the\": 262, \"of\": 286}}");
    }
    std::vector<std::string> tokens(entries.size());
    std::vector<bool> seen(entries.size());
    for (const auto& [token, id] : entries) {
        if (id < 0 || id >= static_cast<i64>(entries.size())) {
            run_error(path,
                      "id {} of token '{}' is out of range: expected 0 to {}, one less than the "
                      "number of entries",
                      id, token, entries.size() - 1);
        }
        const auto index = static_cast<size_t>(id);
        if (seen[index])
            run_error(path, "duplicate id {} (tokens '{}' and '{}')", id, tokens[index], token);
        seen[index] = true;
        tokens[index] = token;
    }
    return tokens;
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        if (line.ends_with('\r')) line.remove_suffix(1);
        lines.push_back(line);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

// Returns whether the token is the concatenation of two other tokens, as every result of a merge
// is.
bool is_concatenation_of_two(std::string_view token, const TokenIndex& index) {
    for (size_t i = 1; i < token.size(); ++i)
        if (index.find(token.substr(0, i)) >= 0 && index.find(token.substr(i)) >= 0) return true;
    return false;
}

// Returns the ids of the tokens with several symbols that no merge produces, without the tokens
// spelled "<...>".
std::vector<size_t> find_without_merge(const BpeFiles& files) {
    std::vector<bool> made(files.tokens.size());
    for (const Merge& merge : files.merges) made[static_cast<size_t>(merge.result)] = true;
    std::vector<size_t> without_merge;
    for (size_t id = 0; id < files.tokens.size(); ++id) {
        const std::string& token = files.tokens[id];
        // A symbol is one code point below U+0800, so it has at most two bytes.
        const bool one_symbol = token.size() <= 1 || (token.size() == 2 && (token[0] & 0x80) != 0);
        const bool special = token.starts_with('<') && token.ends_with('>');
        if (!one_symbol && !special && !made[id]) without_merge.push_back(id);
    }
    return without_merge;
}

// Throws if the merges do not belong to the vocabulary. A few tokens without a merge are normal,
// for example special tokens such as "[PAD]". If a merges file was truncated at the end of a line,
// it lacks the merge of the token whose id follows the result of the file's last merge; no other
// check detects this. A merges file that belongs to another vocabulary lacks the merges of more
// than 1 % of the tokens.
void check_complete(const BpeFiles& files, const TokenIndex& index,
                    const std::string& merges_path) {
    const std::vector<size_t> without_merge = find_without_merge(files);
    if (without_merge.empty()) return;
    const size_t behind =
        files.merges.empty() ? 0 : static_cast<size_t>(files.merges.back().result) + 1;
    size_t n_lost = 0;
    bool is_cut = false;
    for (const size_t id : without_merge) {
        if (!is_concatenation_of_two(files.tokens[id], index)) continue;
        ++n_lost;
        is_cut = is_cut || id == behind;
    }
    const size_t first = is_cut ? behind : without_merge.front();
    if (is_cut || n_lost * 100 > files.tokens.size()) {
        run_error(merges_path,
                  "no merge results in token '{}' (id {}): truncated, or made for another "
                  "vocabulary",
                  files.tokens[first], first);
    }
    warn(
        "{}: tokens that no merge produces: {}, the first is '{}' (id {}): text is never encoded "
        "to these tokens",
        merges_path, without_merge.size(), files.tokens[first], first);
}

}  // namespace

BpeFiles read_gpt2_files(const std::string& vocab_path, const std::string& merges_path) {
    BpeFiles files;
    files.tokens = read_vocab(vocab_path);
    const TokenIndex index(files.tokens, vocab_path);
    const std::string text = io::read_file(merges_path);
    if (const auto other = io::other_format(text); !other.empty())
        run_error(merges_path, "is {}", other);
    const std::vector<std::string_view> lines = lines_of(text);
    size_t n = 0;
    if (!lines.empty() && lines[0].starts_with("#version")) {
        n = 1;
    } else {
        warn(
            "{}: the first line is not '#version...': lm-utils reads the line as a merge, but "
            "Megatron ignores it",
            merges_path);
    }
    MergeReader reader(index, files.tokens.size(), vocab_path);
    for (; n < lines.size(); ++n) {
        if (lines[n].empty() && n + 1 == lines.size()) break;
        const auto where = [&] { return fmt::format("{}:{}", merges_path, n + 1); };
        const size_t space = lines[n].find(' ');
        if (space == std::string_view::npos ||
            lines[n].find(' ', space + 1) != std::string_view::npos) {
            run_error(where(), "expected two tokens separated by one space, got '{}'", lines[n]);
        }
        reader.add(lines[n].substr(0, space), lines[n].substr(space + 1), where);
    }
    if (!text.empty() && !text.ends_with('\n')) {
        warn(
            "{}: no newline at the end, so the file may be truncated: lm-utils uses the last line, "
            "but Megatron drops it",
            merges_path);
    }
    files.merges = reader.finish();
    check_complete(files, index, merges_path);
    return files;
}

std::shared_ptr<const Tokenizer> load_gpt2_tokenizer(const std::string& vocab_path,
                                                     const std::string& merges_path,
                                                     SpecialInText special) {
    BpeFiles files = read_gpt2_files(vocab_path, merges_path);
    BpeTokenizerParts parts;
    parts.type = "GPT2BPETokenizer";
    parts.rule = PretokenizerRule::gpt2;
    const auto eod = std::ranges::find(files.tokens, end_of_document);
    if (eod != files.tokens.end()) {
        parts.eod = static_cast<i32>(eod - files.tokens.begin());
        if (special == SpecialInText::parse) parts.added.push_back({end_of_document, *parts.eod});
    }
    parts.files = std::move(files);
    parts.origin = vocab_path;
    return std::make_shared<BpeTokenizer>(std::move(parts));
}

}  // namespace lm::text
