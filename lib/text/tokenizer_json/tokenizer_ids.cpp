// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json/tokenizer_ids.hpp"

#include <simdjson.h>

#include <string_view>

#include "base/error.hpp"
#include "io/file.hpp"
#include "text/tokenizer_json/read_tokenizer.hpp"

namespace lm::text {
namespace {

class IdReader {
  public:
    explicit IdReader(const std::string& directory)
        : directory_(directory), named_(named_tokens_in(directory)) {}

    TokenizerIds read() {
        const std::string whole = hf_tokenizer_path(directory_);
        if (io::exists(whole)) {
            read_file(whole, [&](const simdjson::dom::element& json) { add_whole(json); });
        } else if (const std::string table = directory_ + "/vocab.json"; io::exists(table)) {
            read_file(table, [&](const simdjson::dom::element& json) { add_table(json); });
            if (const auto added = directory_ + "/added_tokens.json"; io::exists(added))
                read_file(added, [&](const simdjson::dom::element& json) { add_table(json); });
            path_ = named_.config_path;
            for (const AddedToken& token : named_.listed) add(token.content, token.id);
        }
        return std::move(ids_);
    }

  private:
    template <typename Add>
    void read_file(const std::string& path, Add add) {
        path_ = path;
        const std::string text = io::read_file(path);
        simdjson::dom::parser parser;
        try {
            add(parser.parse(text));
        } catch (const simdjson::simdjson_error& error) {
            run_error(path, "not the file of a tokenizer: {}", error.what());
        }
    }

    void add(std::string_view token, i64 id) {
        if (id > ids_.largest) {
            ids_.largest = id;
            ids_.largest_token = token;
            ids_.path = path_;
        }
        if (named_.bos == token) ids_.bos = id;
        if (named_.eos == token) ids_.eos = id;
        if (named_.pad == token) ids_.pad = id;
    }

    void add_table(const simdjson::dom::element& table) {
        for (const auto& [token, id] : simdjson::dom::object(table)) add(token, id.get_int64());
    }

    void add_whole(const simdjson::dom::element& whole) {
        const simdjson::dom::element vocab = whole["model"]["vocab"];
        if (vocab.is_array()) {  // Unigram: pairs of a token and its score, in the order of the ids
            i64 id = 0;
            for (const auto& pair : simdjson::dom::array(vocab)) add(pair.at(0), id++);
        } else {
            add_table(vocab);
        }
        simdjson::dom::array added;
        if (whole["added_tokens"].get(added) != simdjson::SUCCESS) return;
        for (const auto& token : added) add(token["content"], token["id"].get_int64());
    }

    std::string directory_;
    NamedTokens named_;
    std::string path_;
    TokenizerIds ids_;
};

}  // namespace

TokenizerIds read_tokenizer_ids(const std::string& directory) {
    return IdReader(directory).read();
}

}  // namespace lm::text
