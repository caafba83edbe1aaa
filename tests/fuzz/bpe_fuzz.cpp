// SPDX-License-Identifier: Apache-2.0
// libFuzzer: the input determines a merge table and a text. All encoders give the ids of
// ReferenceBpe: for one pre-token, whole and in windows; for many pre-tokens by the mergers; for
// the text, with empty and with filled caches. The tables are small and irregular: tokens that are
// the result of several merges or of none, ranks in any order, whole tokens (ignore_merges), ids of
// 16 and of 32 bits.
#include <sys/prctl.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/all_mergers.hpp"
#include "support/ids.hpp"
#include "support/reference_bpe.hpp"
#include "text/bpe/merges/bpe_model.hpp"
#include "text/bpe/merges/pretoken_encoder.hpp"
#include "text/bpe_encoder.hpp"

namespace {

using lm::i32;
using lm::text::BpeModel;
using lm::text::MediumIds;
using lm::text::Merge;
using lm::text::PretokenizerRule;
using lm::text::PretokenKey;
using Ids = std::vector<i32>;

void require(bool condition) {
    if (!condition) std::abort();
}

struct Shape {
    bool ignore_merges, wide_ids, shuffled, split;
    explicit Shape(std::uint8_t bits)
        : ignore_merges((bits & 1) != 0),
          wide_ids(bits >= 0xF8),  // rarely: such a model has many ids
          shuffled((bits & 4) != 0),
          split((bits & 8) != 0) {}
};

// Tokens of the four bytes "abcd", and tokens that are concatenations of two earlier tokens. Three
// bytes of the input define a concatenation: its left token, its right token, and its merge's rank.
class Table {
  public:
    Table() {
        for (int i = 0; i < 256; ++i) tokens_.emplace_back(1, static_cast<char>(255 - i));
        for (i32 id = 255 - 'd'; id <= 255 - 'a'; ++id) add(id);
    }

    void add_token(const std::uint8_t (&bytes)[3]) {
        const i32 left = words_[bytes[0] % words_.size()];
        const i32 right = words_[bytes[1] % words_.size()];
        const std::uint8_t rank = bytes[2];
        const std::string token = spelling(left) + spelling(right);
        if (token.size() > 24) return;
        const auto known = ids_.find(token);
        const i32 id = known == ids_.end() ? static_cast<i32>(tokens_.size()) : known->second;
        if (known == ids_.end()) {
            tokens_.push_back(token);
            add(id);
        }
        if (rank != unmerged && pairs_.emplace(std::pair(left, right), id).second)
            merges_.emplace_back(rank, Merge{left, right, id});
    }

    BpeModel model(const Shape& shape) {
        if (shape.shuffled)
            std::ranges::stable_sort(merges_, {}, [](const auto& merge) { return merge.first; });
        std::vector<Merge> merges;
        for (const auto& [rank, merge] : merges_) merges.push_back(merge);
        std::array<i32, 256> byte_ids{};
        for (int byte = 0; byte < 256; ++byte)
            byte_ids[static_cast<std::size_t>(byte)] = 255 - byte;
        if (shape.wide_ids) tokens_.resize(65'537);
        return {std::move(tokens_), byte_ids, std::move(merges)};
    }

  private:
    static constexpr std::uint8_t unmerged = 0xFF;  // the rank of a token without a merge

    std::string& spelling(i32 id) { return tokens_[static_cast<std::size_t>(id)]; }
    void add(i32 id) {
        words_.push_back(id);
        ids_.emplace(spelling(id), id);
    }

    std::vector<std::string> tokens_;
    std::vector<i32> words_;  // ids of the tokens that are concatenations
    std::map<std::string, i32> ids_;
    std::map<std::pair<i32, i32>, i32> pairs_;
    std::vector<std::pair<std::uint8_t, Merge>> merges_;
};

// Returns the size of the table in the input: two bytes, and three for each token. The second byte
// is their number.
std::size_t table_size(const std::uint8_t* data, std::size_t size) {
    return size < 2 ? size : std::min<std::size_t>(size, 2 + 3 * (data[1] % 64U));
}

BpeModel read_model(std::string_view input, const Shape& shape) {
    Table table;
    for (std::size_t at = 2; at + 3 <= input.size(); at += 3) {
        const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(input[at + i]); };
        table.add_token({byte(0), byte(1), byte(2)});
    }
    return table.model(shape);
}

struct Subject {
    std::string input;  // the part of the input that determines the model
    Shape shape;
    BpeModel model;
    lm::test::ReferenceBpe slow;

    explicit Subject(std::string_view bytes)
        : input(bytes),
          shape(bytes.empty() ? 0 : static_cast<std::uint8_t>(bytes[0])),
          model(read_model(bytes, shape)),
          slow(model) {
        // As BpeTokenizer does for ignore_merges.
        for (i32 id = 256; shape.ignore_merges && id < model.vocab_size(); ++id) {
            if (model.token(id).empty()) break;
            if (slow.of_pretoken(model.token(id)) != Ids{id}) model.add_whole_token(id);
        }
    }
};

// Returns a text from these bytes. With `ascii` it has only ASCII characters, for the
// pre-tokenizer.
std::string make_text(std::string_view bytes, bool ascii) {
    std::string text;
    for (const char c : bytes.substr(0, 400)) {
        const auto byte = static_cast<std::uint8_t>(c);
        text += byte < 0xF0 ? "abcdabcdabcdabc "[byte % 16] : ascii ? "'\n-1"[byte % 4] : c;
    }
    return text;
}

void check_pretoken(const BpeModel& model, const std::string& pretoken, const Ids& expected) {
    lm::text::PretokenEncoder encoder(model, 16 + pretoken.size() / 4);
    const auto ids = encoder.encode(pretoken);
    require(Ids(ids.begin(), ids.end()) == expected);
    Ids by_window;
    encoder.encode(pretoken, [&](std::span<const i32> some) {
        by_window.insert(by_window.end(), some.begin(), some.end());
    });
    require(by_window == expected);
}

// Cuts the text into pre-tokens of 1 to `longest` bytes.
std::vector<std::string_view> cut(std::string_view text, std::size_t longest) {
    std::vector<std::string_view> pretokens;
    for (std::size_t at = 0; at < text.size(); at += pretokens.back().size())
        pretokens.push_back(text.substr(at, 1 + at % longest));
    return pretokens;
}

void check_many_pretokens(const BpeModel& model, const std::string& text,
                          const lm::test::ReferenceBpe& slow) {
    std::vector<PretokenKey> keys;
    std::vector<Ids> expected;
    for (const std::string_view pretoken : cut(text, PretokenKey::longest)) {
        keys.push_back(PretokenKey::of(pretoken));
        expected.push_back(slow.of_pretoken(pretoken));
    }
    // The mergers require that these bytes are readable at each pre-token.
    const std::string longer = text + std::string(MediumIds::longest + 1, '\0');
    const auto pretokens = cut(std::string_view(longer).substr(0, text.size()), MediumIds::longest);
    for (const auto& merger : lm::test::all_mergers(model)) {
        std::vector<lm::text::ShortIds> merged(keys.size());
        merger->merge(keys, merged.data());
        for (std::size_t i = 0; i < keys.size(); ++i)
            require(Ids(merged[i].ids, merged[i].ids + merged[i].count) == expected[i]);
        std::vector<MediumIds> medium(pretokens.size());
        merger->merge(pretokens, medium.data());
        for (std::size_t i = 0; i < pretokens.size(); ++i)
            require(Ids(medium[i].ids, medium[i].ids + medium[i].count) ==
                    slow.of_pretoken(pretokens[i]));
    }
}

void check_text(const BpeModel& model, const std::string& text, PretokenizerRule rule,
                const lm::test::ReferenceBpe& slow) {
    const Ids expected = slow.of_text(rule, text);
    const auto encoder = lm::text::make_bpe_encoder(model, rule, static_cast<lm::i64>(text.size()));
    require(lm::test::ids_of(*encoder, text) == expected);
    require(lm::test::ids_consumed(*encoder, text) == expected);
}

}  // namespace

// A small quarantine reuses freed memory: new pages for every table take as much time as the run
// itself.
extern "C" const char* __asan_default_options() {
    return "quarantine_size_mb=4";
}

// Disables the huge pages that the tables request: clearing them takes longer than the rest of a
// run.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
    return ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 ? 0 : 1;
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

// Mostly mutates the text only and keeps the table.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
    const std::size_t kept = seed % 8 == 0 ? 0 : table_size(data, size);
    if (kept >= most) return LLVMFuzzerMutate(data, size, most);
    return kept + LLVMFuzzerMutate(data + kept, size - kept, most - kept);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::string_view table = input.substr(0, table_size(data, size));
    static std::unique_ptr<const Subject> last;  // its construction takes longer than all checks
    if (!last || last->input != table) last = std::make_unique<const Subject>(table);
    const auto& [of, shape, model, slow] = *last;
    const std::string text = make_text(input.substr(table.size()), shape.split);
    check_pretoken(model, text, slow.of_pretoken(text));
    check_many_pretokens(model, text, slow);
    check_text(model, text, shape.split ? PretokenizerRule::gpt2 : PretokenizerRule::none, slow);
    return 0;
}
