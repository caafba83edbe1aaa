// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/manifest.hpp"

#include <algorithm>
#include <charconv>
#include <random>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/launcher.hpp"
#include "base/machine.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/format/model_json.hpp"
#include "ckpt/format/step_files.hpp"
#include "io/checked.hpp"
#include "io/json.hpp"
#include "io/path.hpp"

namespace lm::ckpt {
namespace {

constexpr std::string_view manifest_format = "lm-utils checkpoint";
constexpr i64 min_reader_version = 2;
constexpr std::string_view digest_prefix = "xxh3:";
constexpr size_t digest_digits = 32;
// The digest is the last key of the manifest, so the text ends with a fixed pattern.
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
        damaged(path, "does not end with its digest: truncated or edited: use another step");
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
    io::OrderedJson json;
    for (const spec::Dimension& each : spec::dimensions) json[each.key] = parallel.*each.size;
    json["make_vocab_size_divisible_by"] = parallel.vocab_divisible_by;
    json["pad_vocab_size_to"] = parallel.pad_vocab_to;
    return json;
}

// Bounds of the numbers of a manifest. Sums and products of numbers within these bounds fit in 64
// bits, so that code that reads a manifest needs no checks of its own.
constexpr i64 max_count = i64{1} << 60;
constexpr i64 max_ranks = i64{1} << 20;       // ranks in a dimension of the layout
constexpr i64 max_part_bytes = i64{1} << 48;  // bytes of the files of an index part
constexpr size_t max_parts = size_t{1} << 14;

StepCounters counters_from(const io::Json& object, const std::string& path) {
    const auto count = [&](const char* key) {
        return io::json_integer(object, key, 0, max_count, path);
    };
    return {.iteration = count("iteration"),
            .consumed_samples = count("consumed_samples"),
            .consumed_tokens = count("consumed_tokens"),
            .optimizer_step = count("optimizer_step")};
}

spec::ParallelConfig parallel_from(const io::Json& object, const std::string& path) {
    spec::ParallelConfig parallel{
        .vocab_divisible_by =
            io::json_integer(object, "make_vocab_size_divisible_by", 1, max_ranks, path),
        .pad_vocab_to = io::json_integer(object, "pad_vocab_size_to", 0, max_count, path)};
    for (const spec::Dimension& each : spec::dimensions) {
        parallel.*each.size = io::json_integer(object, each.key, 1, max_ranks, path);
    }
    return parallel;
}

TensorInfo tensor_from(const io::Json& object, const std::string& path) {
    const auto name = io::json_get<std::string>(object, "name", path);
    const auto dims = io::json_get<std::vector<i64>>(object, "shape", path);
    const auto dtype = io::json_get<std::string>(object, "dtype", path);
    if (dims.size() > static_cast<size_t>(Shape::max_rank)) {
        damaged(path, "corrupt: tensor {}: expected at most {} dimensions, got {}", name,
                Shape::max_rank, dims.size());
    }
    for (const i64 dim : dims) {
        if (dim < 1)
            damaged(path, "corrupt: tensor {}: expected dimensions of at least 1, got {}", name,
                    dim);
    }
    const Shape shape(dims);
    if (shape.numel() > max_count)
        damaged(path, "corrupt: tensor {}: expected at most {} elements, got {}", name, max_count,
                shape.numel());
    return {name, shape, dtype_from_name(dtype)};
}

io::OrderedJson to_json(const Totals& totals) {
    io::OrderedJson object{{"files", totals.files}, {"bytes", totals.bytes}};
    object["kinds"] = io::OrderedJson::array();
    for (const KindTotal& total : totals.kinds) {
        object["kinds"].push_back({{"kind", name_of(total.kind)},
                                   {"dtype", lm::name_of(total.dtype)},
                                   {"bytes", total.bytes}});
    }
    return object;
}

io::OrderedJson to_json(const IndexReference& part) {
    return {{"file", part.file},
            {"digest", part.digest},
            {"tensors", {part.first_tensor, part.last_tensor}},
            {"totals", to_json(part.totals)}};
}

Totals totals_from(const io::Json& object, const std::string& path) {
    Totals totals{io::json_integer(object, "files", 0, max_part_bytes, path),
                  io::json_integer(object, "bytes", 0, max_part_bytes, path),
                  {}};
    for (const io::Json& kind : io::json_get<std::vector<io::Json>>(object, "kinds", path)) {
        totals.kinds.push_back({SliceKind::named(io::json_get<std::string>(kind, "kind", path)),
                                dtype_from_name(io::json_get<std::string>(kind, "dtype", path)),
                                io::json_integer(kind, "bytes", 0, max_part_bytes, path)});
    }
    return totals;
}

IndexReference part_from(const io::Json& object, const std::string& path) {
    const auto tensors = io::json_get<std::vector<i64>>(object, "tensors", path);
    if (tensors.size() != 2)
        damaged(path, "corrupt: expected two numbers in 'tensors', got {}", tensors.size());
    const auto file = io::json_get<std::string>(object, "file", path);
    if (!io::is_plain_name(file)) damaged(path, "corrupt: '{}' is not a plain file name", file);
    return {.file = file,
            .digest = io::json_get<std::string>(object, "digest", path),
            .first_tensor = tensors[0],
            .last_tensor = tensors[1],
            .totals = totals_from(io::json_get<io::Json>(object, "totals", path), path)};
}

constexpr const char* config_key = "config";
constexpr const char* generation_key = "generation_config";

io::OrderedJson to_json(const SpecialIds& ids) {
    io::OrderedJson object;
    if (!ids.eos.empty()) object["eos"] = ids.eos;
    if (ids.bos) object["bos"] = *ids.bos;
    if (ids.pad) object["pad"] = *ids.pad;
    return object;
}

// Returns the ids of the member `key`; none without the member.
SpecialIds special_ids_from(const io::Json& tokenizer, const char* key, const std::string& path) {
    const auto object = io::json_get_or<io::Json>(tokenizer, key, io::Json::object(), path);
    const auto id = [&](const char* name) {
        return object.contains(name) ? std::optional(io::json_get<i64>(object, name, path))
                                     : std::nullopt;
    };
    return {io::json_get_or<std::vector<i64>>(object, "eos", {}, path), id("bos"), id("pad")};
}

io::OrderedJson to_json(const TokenizerInfo& tokenizer) {
    io::OrderedJson object{{"end_of_document", tokenizer.end_of_document},
                           {"digest", tokenizer.digest}};
    for (const TokenizerFile& file : tokenizer.files) {
        object["files"].push_back(
            {{"file", file.name}, {"bytes", file.bytes}, {"digest", file.digest}});
    }
    if (!tokenizer.config.empty()) object[config_key] = to_json(tokenizer.config);
    if (!tokenizer.generation_config.empty())
        object[generation_key] = to_json(tokenizer.generation_config);
    return object;
}

TokenizerInfo tokenizer_from(const io::Json& object, const std::string& path) {
    TokenizerInfo tokenizer{io::json_get<i64>(object, "end_of_document", path),
                            io::json_get<std::string>(object, "digest", path)};
    for (const io::Json& file : io::json_get_or<std::vector<io::Json>>(object, "files", {}, path)) {
        const auto name = io::json_get<std::string>(file, "file", path);
        if (std::ranges::find(tokenizer_file_names, name) == tokenizer_file_names.end())
            damaged(path, "corrupt: '{}' is not the name of a file of a tokenizer", name);
        tokenizer.files.push_back(
            {.name = name,
             .bytes = io::json_integer(file, "bytes", 0, max_part_bytes, path),
             .digest = io::json_get<std::string>(file, "digest", path),
             .text = nullptr});
    }
    tokenizer.config = special_ids_from(object, config_key, path);
    tokenizer.generation_config = special_ids_from(object, generation_key, path);
    return tokenizer;
}

void check_version(const io::Json& document, const std::string& path) {
    if (io::json_get<std::string>(document, "format", path) != manifest_format) {
        run_error(path, "is not the manifest of a checkpoint: its 'format' is not '{}'",
                  manifest_format);
    }
    const i64 version = io::json_get<i64>(document, "format_version", path);
    const i64 least = io::json_get_or<i64>(document, "min_reader_version", version, path);
    if (version < min_reader_version || least > format_version) {
        run_error(path,
                  "expected format version {}, got {}, which needs a reader of version {}: "
                  "use a matching lm-utils",
                  format_version, version, least);
    }
    for (const auto& feature :
         io::json_get_or<std::vector<std::string>>(document, "features", {}, path)) {
        run_error(path,
                  "uses the feature '{}', which this lm-utils does not know: use a newer lm-utils",
                  feature);
    }
}

// Adds the keys that state which run wrote the step: generation, run id, parent, lineage and
// writer.
void write_origin(io::OrderedJson& document, const Manifest& manifest) {
    document["generation"] = manifest.generation;
    document["run_id"] = manifest.run_id;
    document["parent"] = manifest.parent ? to_json(*manifest.parent) : io::OrderedJson();
    document["lineage"] = to_json(manifest.lineage);
    document["writer"] = {{"host", manifest.writer.host},
                          {"user", manifest.writer.user},
                          {"job", manifest.writer.job}};
}

void read_origin(const io::Json& document, const std::string& path, Manifest& manifest) {
    manifest.generation = generation_from(document, path);
    manifest.run_id = io::json_get<std::string>(document, "run_id", path);
    manifest.parent = optional_reference(document, "parent", path);
    manifest.lineage =
        lineage_from(io::json_get<std::vector<io::Json>>(document, "lineage", path), path);
    const auto writer = io::json_get<io::Json>(document, "writer", path);
    manifest.writer = {.host = io::json_get<std::string>(writer, "host", path),
                       .user = io::json_get<std::string>(writer, "user", path),
                       .job = io::json_get<std::string>(writer, "job", path)};
}

// Returns the manifest of `document`, without its digest.
Manifest manifest_from(const io::Json& document, const std::string& path) {
    check_version(document, path);
    Manifest manifest;
    read_origin(document, path, manifest);
    manifest.tool_version = io::json_get<std::string>(document, "tool_version", path);
    manifest.created = io::json_get<std::string>(document, "created", path);
    manifest.command_line = io::json_get<std::string>(document, "command_line", path);
    manifest.counters = counters_from(io::json_get<io::Json>(document, "counters", path), path);
    manifest.model = model_from_json(io::json_get<io::Json>(document, "model", path), path);
    manifest.tokenizer = tokenizer_from(io::json_get<io::Json>(document, "tokenizer", path), path);
    manifest.parallel = parallel_from(io::json_get<io::Json>(document, "parallel", path), path);
    manifest.seed = io::json_get<i64>(document, "seed", path);
    manifest.state =
        io::json_line(io::OrderedJson(io::json_get<io::Json>(document, "state", path)));
    for (const io::Json& tensor : io::json_get<std::vector<io::Json>>(document, "tensors", path)) {
        manifest.tensors.push_back(tensor_from(tensor, path));
    }
    const auto parts = io::json_get<std::vector<io::Json>>(document, "index", path);
    if (parts.size() > max_parts)
        damaged(path, "corrupt: expected at most {} index parts, got {}", max_parts, parts.size());
    for (const io::Json& part : parts) manifest.index.push_back(part_from(part, path));
    return manifest;
}

}  // namespace

std::string step_name(i64 iteration) {
    return fmt::format("global_step{}", iteration);
}

i64 step_from_name(std::string_view name) {
    constexpr std::string_view prefix = "global_step";
    if (!name.starts_with(prefix)) return -1;
    name.remove_prefix(prefix.size());
    i64 step = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
    const bool plain = error == std::errc() && end == name.data() + name.size();
    // Only a number that step_name() would write is valid, not "-1" or "007".
    return plain && step >= 0 && std::to_string(step) == name ? step : -1;
}

void Totals::add(SliceKind kind, DType dtype, i64 n_bytes) {
    const auto found = std::ranges::find(kinds, kind, &KindTotal::kind);
    if (found == kinds.end()) {
        kinds.push_back({kind, dtype, n_bytes});
    } else {
        found->bytes += n_bytes;
    }
}

void Totals::add(const Totals& other) {
    files += other.files;
    bytes += other.bytes;
    for (const KindTotal& total : other.kinds) add(total.kind, total.dtype, total.bytes);
}

Totals Manifest::totals() const {
    Totals sum;
    for (const IndexReference& part : index) sum.add(part.totals);
    return sum;
}

bool Manifest::has(SliceKind kind) const {
    const Totals sum = totals();
    return std::ranges::find(sum.kinds, kind, &KindTotal::kind) != sum.kinds.end();
}

std::string new_run_id() {
    std::random_device random;
    const u64 bits = u64{random()} << 32 | random();
    return fmt::format("{:016x}", bits);
}

Writer this_writer() {
    return {.host = host_name(), .user = own_user(), .job = slurm_job()};
}

io::OrderedJson to_json(const StepReference& step) {
    return {{"iteration", step.iteration}, {"digest", step.digest}};
}

i64 generation_from(const io::Json& object, const std::string& path) {
    return io::json_integer(object, "generation", 0, max_generation, path);
}

StepReference step_reference_from(const io::Json& object, const std::string& path) {
    return {.iteration = io::json_integer(object, "iteration", 0, max_count, path),
            .digest = io::json_get<std::string>(object, "digest", path)};
}

std::optional<StepReference> optional_reference(const io::Json& object, const std::string& key,
                                                const std::string& path) {
    const auto value = io::json_get<io::Json>(object, key, path);
    if (value.is_null()) return std::nullopt;
    return step_reference_from(value, path);
}

io::OrderedJson to_json(const std::vector<LineageEntry>& lineage) {
    io::OrderedJson list = io::OrderedJson::array();
    for (const LineageEntry& entry : lineage) {
        list.push_back({{"generation", entry.generation},
                        {"run_id", entry.run_id},
                        {"start", entry.start ? to_json(*entry.start) : io::OrderedJson()}});
    }
    return list;
}

std::vector<LineageEntry> lineage_from(const std::vector<io::Json>& list, const std::string& path) {
    std::vector<LineageEntry> lineage;
    for (const io::Json& entry : list) {
        lineage.push_back({generation_from(entry, path),
                           io::json_get<std::string>(entry, "run_id", path),
                           optional_reference(entry, "start", path)});
    }
    return lineage;
}

std::string manifest_text(const Manifest& manifest) {
    io::OrderedJson document;
    document["format"] = manifest_format;
    document["format_version"] = format_version;
    document["min_reader_version"] = min_reader_version;
    document["features"] = manifest.features;
    document["tool_version"] = manifest.tool_version;
    document["created"] = manifest.created;
    document["command_line"] = manifest.command_line;
    write_origin(document, manifest);
    document["counters"] = to_json(manifest.counters);
    document["model"] = to_json(manifest.model);
    document["tokenizer"] = to_json(manifest.tokenizer);
    document["parallel"] = to_json(manifest.parallel);
    document["seed"] = manifest.seed;
    document["state"] = io::OrderedJson(io::parse_json(manifest.state, "state"));
    document["totals"] = to_json(manifest.totals());
    const auto n_described = static_cast<i64>(io::json_text(document).size());
    document["tensors"] = io::OrderedJson::array();
    for (const TensorInfo& tensor : manifest.tensors) {
        document["tensors"].push_back({{"name", tensor.name},
                                       {"shape", tensor.shape.dims()},
                                       {"dtype", lm::name_of(tensor.dtype)}});
    }
    document["index"] = io::OrderedJson::array();
    for (const IndexReference& part : manifest.index) document["index"].push_back(to_json(part));
    document["digest"] = zero_digest();
    std::string text = io::json_text(document);
    LM_CHECK(text.ends_with(tail_after), "expected a manifest that ends with its digest, got {}",
             text.substr(text.size() - std::min<size_t>(text.size(), 80)));
    const i64 padding = round_up(n_described, manifest_room) - n_described;
    text.insert(digits_at(text) - tail_before.size(), static_cast<size_t>(padding), ' ');
    const std::string own = digest(text);
    text.replace(digits_at(text), digest_digits, own.substr(digest_prefix.size()));
    return text;
}

std::string reference_text(const IndexReference& part) {
    return to_json(part).dump();
}

IndexReference parse_reference(std::string_view text) {
    const std::string path = "a reference to an index part";
    return part_from(io::parse_json(text, path), path);
}

std::string digest_of_manifest(std::string_view text) {
    return std::string(digest_prefix) + std::string(text.substr(digits_at(text), digest_digits));
}

Manifest read_manifest(const std::string& step_path) {
    const std::string file = fmt::format("{}/{}", step_path, manifest_file);
    if (!io::checked::exists(file))
        damaged(step_path, "is not complete: it has no {}: use another step", manifest_file);
    return parse_manifest(read_step_file(file), file);
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
    std::string copy(text);
    const std::string stated = extract_digest(copy, path);
    if (digest(copy) != stated)
        damaged(path, "does not match its digest: corrupt or edited: use another step");
    Manifest manifest =
        parsed(path, [&] { return manifest_from(io::parse_json(copy, path), path); });
    manifest.digest = stated;
    return manifest;
}

}  // namespace lm::ckpt
