// SPDX-License-Identifier: Apache-2.0
#include "data/indexed/dataset_metadata.hpp"

#include "base/error.hpp"

namespace lm::data {
namespace {

constexpr const char* format_name = "lm-utils indexed dataset";

TokenType type_from_name(const std::string& name, const std::string& path) {
    for (const TokenType type : {TokenType::u8, TokenType::i8, TokenType::i16, TokenType::i32,
                                 TokenType::i64, TokenType::u16}) {
        if (name == name_of(type)) return type;
    }
    run_error(path, "unknown dtype '{}'", name);
}

FileFacts parse_file(const io::Json& object, const char* key, const std::string& path) {
    const auto facts = io::json_get<io::Json>(object, key, path);
    return {io::json_get<i64>(facts, "bytes", path),
            io::json_get<std::string>(facts, "digest", path)};
}

TokenizerFacts parse_tokenizer(const io::Json& object, const std::string& path) {
    const auto facts = io::json_get<io::Json>(object, "tokenizer", path);
    TokenizerFacts tokenizer{io::json_get<std::string>(facts, "type", path),
                             io::json_get<std::string>(facts, "digest", path),
                             io::json_get<i64>(facts, "vocab_size", path),
                             io::json_get<i64>(facts, "padded_vocab_size", path)};
    for (const io::Json& file : io::json_get_or<std::vector<io::Json>>(facts, "files", {}, path)) {
        tokenizer.files.push_back({io::json_get<std::string>(file, "file", path),
                                   io::json_get<std::string>(file, "path", path),
                                   io::json_get<std::string>(file, "digest", path)});
    }
    return tokenizer;
}

void check_equal(i64 metadata, i64 data, const char* what, const std::string& prefix) {
    if (metadata != data) {
        run_error(metadata_path(prefix),
                  "states {} {}, but the dataset has {}: this metadata file belongs to another "
                  "dataset: replace or remove it",
                  metadata, what, data);
    }
}

}  // namespace

std::string DatasetMetadata::to_json() const {
    io::OrderedJson j;
    j["format"] = format_name;
    j["version"] = 1;
    j["tool"] = tool;
    j["documents"] = documents;
    j["sequences"] = sequences;
    j["tokens"] = tokens;
    j["dtype"] = std::string(name_of(dtype));
    j["largest_id"] = largest_id;
    if (eod_id)
        j["eod_id"] = *eod_id;
    else
        j["eod_id"] = nullptr;
    j["appended_eod"] = appended_eod;
    j["tokenizer"] = {{"type", tokenizer.type},
                      {"digest", tokenizer.digest},
                      {"vocab_size", tokenizer.vocab_size},
                      {"padded_vocab_size", tokenizer.padded_vocab_size}};
    for (const auto& [name, path, digest] : tokenizer.files) {
        j["tokenizer"]["files"].push_back({{"file", name}, {"path", path}, {"digest", digest}});
    }
    j["bin"] = {{"bytes", bin.bytes}, {"digest", bin.digest}};
    j["idx"] = {{"bytes", idx.bytes}, {"digest", idx.digest}};
    if (!origin.is_null()) j["origin"] = io::OrderedJson(origin);
    return io::json_text(j);
}

DatasetMetadata DatasetMetadata::parse(std::string_view text, const std::string& path) {
    const io::Json j = io::parse_json(text, path);
    if (io::json_get<std::string>(j, "format", path) != format_name) {
        run_error(path, "is not the metadata file of an indexed dataset");
    }
    const i64 version = io::json_get<i64>(j, "version", path);
    if (version != 1) run_error(path, "has version {}, expected 1", version);
    DatasetMetadata s;
    s.tool = io::json_get<std::string>(j, "tool", path);
    s.documents = io::json_get<i64>(j, "documents", path);
    s.sequences = io::json_get<i64>(j, "sequences", path);
    s.tokens = io::json_get<i64>(j, "tokens", path);
    s.dtype = type_from_name(io::json_get<std::string>(j, "dtype", path), path);
    s.largest_id = io::json_get<i64>(j, "largest_id", path);
    if (j.contains("eod_id") && !j["eod_id"].is_null())
        s.eod_id = io::json_get<i64>(j, "eod_id", path);
    s.appended_eod = io::json_get<bool>(j, "appended_eod", path);
    s.tokenizer = parse_tokenizer(j, path);
    s.bin = parse_file(j, "bin", path);
    s.idx = parse_file(j, "idx", path);
    s.origin = io::json_get_or<io::Json>(j, "origin", io::Json(), path);
    return s;
}

std::optional<DatasetMetadata> read_metadata(const std::string& prefix) {
    const std::string path = metadata_path(prefix);
    if (!io::exists(path)) return std::nullopt;
    return DatasetMetadata::parse(io::read_file(path), path);
}

std::optional<DatasetMetadata> read_metadata(const IndexedDataset& dataset) {
    const std::string& prefix = dataset.prefix();
    std::optional<DatasetMetadata> metadata = read_metadata(prefix);
    if (!metadata) return metadata;
    check_equal(metadata->sequences, dataset.n_sequences(), "sequences", prefix);
    check_equal(metadata->documents, dataset.n_documents(), "documents", prefix);
    check_equal(metadata->tokens, dataset.n_tokens(), "tokens", prefix);
    check_equal(metadata->bin.bytes, dataset.bin_bytes(), "bytes of tokens", prefix);
    check_equal(metadata->idx.bytes, dataset.idx_bytes(), "bytes of index", prefix);
    if (metadata->dtype != dataset.token_type()) {
        run_error(metadata_path(prefix), "states dtype {}, but the dataset has {}",
                  name_of(metadata->dtype), name_of(dataset.token_type()));
    }
    return metadata;
}

}  // namespace lm::data
