// SPDX-License-Identifier: Apache-2.0
#include "ckpt/manifest.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "ckpt/model_json.hpp"

namespace lm::ckpt {
namespace {

constexpr std::string_view format_name = "lm-utils checkpoint";
constexpr std::string_view digest_prefix = "xxh3:";
constexpr size_t digest_digits = 32;
// The digest is the last key, so that the text ends with a fixed pattern.
constexpr std::string_view tail_before = "\"digest\": \"xxh3:";
constexpr std::string_view tail_after = "\"\n}\n";

std::string zero_digest() {
    return std::string(digest_prefix) + std::string(digest_digits, '0');
}

size_t digits_at(std::string_view text) {
    return text.size() - tail_after.size() - digest_digits;
}

// Returns the digest that `text` states and replaces its digits in `text` by zeros.
std::string extract_digest(std::string& text, const std::string& path) {
    const size_t tail = tail_before.size() + digest_digits + tail_after.size();
    if (text.size() < tail || !text.ends_with(tail_after) ||
        text.substr(text.size() - tail, tail_before.size()) != tail_before) {
        run_error(path, "does not end with its digest: truncated or edited: use another step");
    }
    const std::string digits = text.substr(digits_at(text), digest_digits);
    text.replace(digits_at(text), digest_digits, digest_digits, '0');
    return std::string(digest_prefix) + digits;
}

io::OrderedJson to_json(const StepCounters& counters) {
    return {{"iteration", counters.iteration},
            {"consumed_samples", counters.consumed_samples},
            {"consumed_tokens", counters.consumed_tokens},
            {"optimizer_step", counters.optimizer_step}};
}

io::OrderedJson to_json(const spec::ParallelConfig& parallel) {
    return {{"tensor_model_parallel_size", parallel.tp},
            {"pipeline_model_parallel_size", parallel.pp},
            {"data_parallel_size", parallel.dp},
            {"make_vocab_size_divisible_by", parallel.vocab_divisible_by},
            {"pad_vocab_size_to", parallel.pad_vocab_to}};
}

StepCounters counters_from(const io::Json& object, const std::string& path) {
    return {.iteration = io::json_get<i64>(object, "iteration", path),
            .consumed_samples = io::json_get<i64>(object, "consumed_samples", path),
            .consumed_tokens = io::json_get<i64>(object, "consumed_tokens", path),
            .optimizer_step = io::json_get<i64>(object, "optimizer_step", path)};
}

spec::ParallelConfig parallel_from(const io::Json& object, const std::string& path) {
    return {.tp = io::json_get<i64>(object, "tensor_model_parallel_size", path),
            .pp = io::json_get<i64>(object, "pipeline_model_parallel_size", path),
            .dp = io::json_get<i64>(object, "data_parallel_size", path),
            .vocab_divisible_by = io::json_get<i64>(object, "make_vocab_size_divisible_by", path),
            .pad_vocab_to = io::json_get<i64>(object, "pad_vocab_size_to", path)};
}

TensorInfo tensor_from(const io::Json& object, const std::string& path) {
    const auto name = io::json_get<std::string>(object, "name", path);
    const auto dims = io::json_get<std::vector<i64>>(object, "shape", path);
    const auto dtype = io::json_get<std::string>(object, "dtype", path);
    if (dims.size() > static_cast<size_t>(Shape::max_rank)) {
        run_error(path, "corrupt: tensor {}: expected at most {} dimensions, got {}", name,
                  Shape::max_rank, dims.size());
    }
    for (const i64 dim : dims) {
        if (dim < 1)
            run_error(path, "corrupt: tensor {}: expected dimensions of at least 1, got {}", name,
                      dim);
    }
    return {name, Shape(dims), dtype_from_name(dtype)};
}

void check_version(const io::Json& document, const std::string& path) {
    if (io::json_get<std::string>(document, "format", path) != format_name) {
        run_error(path, "is not the manifest of a checkpoint: its 'format' is not '{}'",
                  format_name);
    }
    const i64 version = io::json_get<i64>(document, "format_version", path);
    if (version != format_version) {
        run_error(path, "expected format version {}, got {}: use a matching lm-utils",
                  format_version, version);
    }
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
    io::OrderedJson document;
    document["format"] = format_name;
    document["format_version"] = format_version;
    document["tool_version"] = manifest.tool_version;
    document["created"] = manifest.created;
    document["command_line"] = manifest.command_line;
    document["generation"] = manifest.generation;
    document["counters"] = to_json(manifest.counters);
    document["model"] = to_json(manifest.model);
    document["tokenizer"] = {{"end_of_document", manifest.tokenizer.end_of_document},
                             {"digest", manifest.tokenizer.digest}};
    document["parallel"] = to_json(manifest.parallel);
    document["seed"] = manifest.seed;
    document["state"] = io::OrderedJson(manifest.state);
    document["tensors"] = io::OrderedJson::array();
    for (const TensorInfo& tensor : manifest.tensors) {
        document["tensors"].push_back({{"name", tensor.name},
                                       {"shape", tensor.shape.dims()},
                                       {"dtype", lm::name_of(tensor.dtype)}});
    }
    document["index"] = io::OrderedJson::array();
    for (const IndexReference& part : manifest.index) {
        document["index"].push_back({{"file", part.file},
                                     {"digest", part.digest},
                                     {"tensors", {part.first_tensor, part.last_tensor}}});
    }
    document["digest"] = zero_digest();
    std::string text = io::json_text(document);
    const std::string own = digest(text);
    LM_CHECK(text.ends_with(tail_after), "expected a manifest that ends with its digest, got {}",
             text.substr(text.size() - std::min<size_t>(text.size(), 80)));
    text.replace(digits_at(text), digest_digits, own.substr(digest_prefix.size()));
    return text;
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
    std::string copy(text);
    const std::string stated = extract_digest(copy, path);
    if (digest(copy) != stated)
        run_error(path, "does not match its digest: corrupt or edited: use another step");
    const io::Json document = io::parse_json(copy, path);
    check_version(document, path);
    Manifest manifest;
    manifest.tool_version = io::json_get<std::string>(document, "tool_version", path);
    manifest.created = io::json_get<std::string>(document, "created", path);
    manifest.command_line = io::json_get<std::string>(document, "command_line", path);
    manifest.generation = io::json_get<i64>(document, "generation", path);
    manifest.counters = counters_from(io::json_get<io::Json>(document, "counters", path), path);
    manifest.model = model_from_json(io::json_get<io::Json>(document, "model", path), path);
    const auto tokenizer = io::json_get<io::Json>(document, "tokenizer", path);
    manifest.tokenizer = {io::json_get<i64>(tokenizer, "end_of_document", path),
                          io::json_get<std::string>(tokenizer, "digest", path)};
    manifest.parallel = parallel_from(io::json_get<io::Json>(document, "parallel", path), path);
    manifest.seed = io::json_get<i64>(document, "seed", path);
    manifest.state = io::json_get<io::Json>(document, "state", path);
    for (const io::Json& tensor : io::json_get<std::vector<io::Json>>(document, "tensors", path)) {
        manifest.tensors.push_back(tensor_from(tensor, path));
    }
    for (const io::Json& part : io::json_get<std::vector<io::Json>>(document, "index", path)) {
        manifest.index.push_back({.file = io::json_get<std::string>(part, "file", path),
                                  .digest = io::json_get<std::string>(part, "digest", path)});
        if (!part.contains("tensors")) continue;
        const auto tensors = io::json_get<std::vector<i64>>(part, "tensors", path);
        if (tensors.size() != 2)
            run_error(path, "corrupt: expected two numbers in 'tensors', got {}", tensors.size());
        manifest.index.back().first_tensor = tensors[0];
        manifest.index.back().last_tensor = tensors[1];
    }
    return manifest;
}

}  // namespace lm::ckpt
