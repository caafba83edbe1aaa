// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json/write_tokenizer.hpp"

#include <algorithm>

#include "io/json.hpp"
#include "text/tokenizer_json/pretokenizer_component.hpp"
#include "text/tokenizer_json/special_tokens.hpp"

namespace lm::text {
namespace {

using io::OrderedJson;
using Kind = NormalizerStep::Kind;

std::string merge_text(const TrainedBpe& bpe, const Merge& merge) {
    return bpe.tokens[static_cast<size_t>(merge.left)] + ' ' +
           bpe.tokens[static_cast<size_t>(merge.right)];
}

OrderedJson vocabulary(const TrainedBpe& bpe) {
    OrderedJson json = OrderedJson::object();
    // Appends to the underlying vector, because an insertion by key would first search the whole
    // vector.
    auto& entries = json.get_ref<OrderedJson::object_t&>();
    for (size_t id = 0; id < bpe.tokens.size(); ++id) entries.emplace_back(bpe.tokens[id], id);
    return json;
}

OrderedJson normalizer(const std::optional<Kind>& form) {
    if (!form) return nullptr;
    const char* name = *form == Kind::nfc    ? "NFC"
                       : *form == Kind::nfd  ? "NFD"
                       : *form == Kind::nfkc ? "NFKC"
                                             : "NFKD";
    return {{"type", name}};
}

OrderedJson added_tokens(const std::vector<std::string>& special) {
    OrderedJson list = OrderedJson::array();
    for (size_t id = 0; id < special.size(); ++id) {
        list.push_back({{"id", id},
                        {"content", special[id]},
                        {"single_word", false},
                        {"lstrip", false},
                        {"rstrip", false},
                        {"normalized", false},
                        {"special", true}});
    }
    return list;
}

OrderedJson model(const TrainedBpe& bpe) {
    OrderedJson merges = OrderedJson::array();
    for (const Merge& merge : bpe.merges) merges.push_back(merge_text(bpe, merge));
    OrderedJson json = {{"type", "BPE"},
                        {"dropout", nullptr},
                        {"unk_token", nullptr},
                        {"continuing_subword_prefix", nullptr},
                        {"end_of_word_suffix", nullptr},
                        {"fuse_unk", false},
                        {"byte_fallback", false},
                        {"ignore_merges", false}};
    json["vocab"] = vocabulary(bpe);
    json["merges"] = std::move(merges);
    return json;
}

}  // namespace

std::string vocab_json(const TrainedBpe& bpe) {
    return vocabulary(bpe).dump() + "\n";
}

std::string merges_txt(const TrainedBpe& bpe) {
    std::string text = "#version: 0.2\n";
    for (const Merge& merge : bpe.merges) text += merge_text(bpe, merge) + '\n';
    return text;
}

std::string tokenizer_json(const TrainedBpe& bpe, const TokenizerDesign& design) {
    OrderedJson json;
    json["version"] = "1.0";
    json["truncation"] = nullptr;
    json["padding"] = nullptr;
    json["added_tokens"] = added_tokens(design.special);
    json["normalizer"] = normalizer(design.form);
    json["pre_tokenizer"] = pretokenizer_json(design.rule);
    json["post_processor"] = byte_level_json(true);
    json["decoder"] = byte_level_json(true);
    json["model"] = model(bpe);
    return io::json_text(json);
}

std::string tokenizer_config_json(const TokenizerDesign& design) {
    OrderedJson json;
    json["tokenizer_class"] = "PreTrainedTokenizerFast";
    const auto eos = std::ranges::find_first_of(end_of_document_names, design.special);
    if (eos != std::end(end_of_document_names)) json["eos_token"] = *eos;
    json["clean_up_tokenization_spaces"] = false;
    return io::json_text(json);
}

}  // namespace lm::text
