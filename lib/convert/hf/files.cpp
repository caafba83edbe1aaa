// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "ckpt/format/safetensors_header.hpp"
#include "convert/torch/torch_file.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/path.hpp"

namespace lm::convert {
namespace {

constexpr std::array<std::string_view, 2> single_files{"model.safetensors", "pytorch_model.bin"};

// Follows links, as transformers does: a link without a target is no file.
bool is_file(const std::string& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error);
}

// Returns the path of a shard in the directory of its index: "a.bin" for "./a.bin". Returns an
// empty path if it leads out of the directory.
std::string shard_in_directory(const std::string& file) {
    const std::string path = std::filesystem::path(file).lexically_normal().string();
    return io::is_plain_path(path) ? path : "";
}

}  // namespace

HfTensors HfTensors::open(const std::string& path) {
    HfTensors tensors;
    if (!io::is_directory(path)) {
        tensors.add_file(path);
        return tensors;
    }
    for (const std::string_view name : single_files) {
        const std::string single = fmt::format("{}/{}", path, name);
        const std::string index = single + ".index.json";
        if (is_file(single)) {
            // The order of from_pretrained().
            if (is_file(index)) {
                note("{}: is read, as transformers does; {}.index.json and its shards are ignored",
                     single, name);
            }
            tensors.add_file(single);
            return tensors;
        }
        if (is_file(index)) {
            tensors.add_index(path, index);
            return tensors;
        }
    }
    for (const std::string_view name : single_files) {
        for (const char* ending : {"", ".index.json"}) {
            const std::string other = fmt::format("{}/{}{}", path, name, ending);
            if (io::exists(other)) io::open_read(other);  // throws: it is no file
        }
    }
    for (const std::string& name : io::list_directory(path)) {
        for (const std::string_view single : single_files) {
            const size_t stem = single.rfind('.');
            if (!name.starts_with(fmt::format("{}-", single.substr(0, stem))) ||
                !name.ends_with(single.substr(stem))) {
                continue;
            }
            usage_error(path,
                        "has the shard {}, but not {}.index.json: copy all files of the model",
                        name, single);
        }
    }
    usage_error(path,
                "contains no weights (expected {}, {} or the index file of one of them): give the "
                "directory of a model",
                single_files[0], single_files[1]);
}

// Reads only the header.
void HfTensors::read_safetensors(const std::string& path, std::vector<SourceTensor>& tensors) {
    constexpr i64 length_bytes = 8;
    const io::Fd fd = io::open_read(path);
    const i64 size = io::file_size(path);
    if (size < length_bytes) run_error(path, "truncated: expected at least 8 bytes, got {}", size);
    u64 length = 0;
    io::read_exact(fd, path, std::as_writable_bytes(std::span(&length, 1)), 0);
    const i64 rest = size - length_bytes;
    const i64 n = length > static_cast<u64>(rest) ? rest : static_cast<i64>(length);
    std::vector<std::byte> header(
        static_cast<size_t>(length_bytes + std::min(n, ckpt::max_safetensors_header)));
    io::read_exact(fd, path, header, 0);
    const ckpt::SafetensorsHeader parsed = ckpt::parse_safetensors_header(header, size, path);
    for (const ckpt::SafetensorsEntry& entry : parsed.entries) {
        const std::optional<DType> dtype = ckpt::dtype_of_safetensors(entry.dtype);
        if (!dtype || !is_floating_point(*dtype)) {
            unread_[entry.name] = {
                path, fmt::format("expected F64, F32, BF16 or F16, got {}", entry.dtype)};
            continue;
        }
        auto storage = std::make_shared<Storage>(Storage{*dtype, {}});
        storage->extents.push_back(
            {path, parsed.data_start + entry.begin, (entry.end - entry.begin) / size_of(*dtype)});
        tensors.push_back(
            {entry.name, std::move(storage), 0, entry.shape, contiguous_strides(entry.shape)});
    }
}

// Reads a state_dict in a file of torch.save.
void HfTensors::read_torch(const std::string& path, std::vector<SourceTensor>& tensors) {
    const TorchFile file = TorchFile::open(path);
    const PickleValue& root = file.root();
    if (!root.is(PickleValue::Kind::dict)) {
        run_error(path, "expected a dict of tensors, got a {}", name_of(root.kind));
    }
    for (size_t i = 0; i + 1 < root.items.size(); i += 2) {
        const PickleValue& name = *root.items[i];
        const PickleValue& value = *root.items[i + 1];
        if (!name.is(PickleValue::Kind::text))
            run_error(path, "a key of the state_dict is not a string");
        if (value.is(PickleValue::Kind::tensor) && !value.tensor[0].dtype) {
            unread_[name.text] = {
                path, fmt::format("expected float64, float32, bfloat16 or float16, got {}",
                                  value.tensor[0].type)};
            continue;
        }
        if (value.is(PickleValue::Kind::dict)) {
            run_error(path,
                      "{}: expected a tensor, got a dict, as in the checkpoint of a training "
                      "script: save the dict of the model's tensors alone with torch.save",
                      name.text);
        }
        if (!value.is(PickleValue::Kind::tensor)) {
            unread_[name.text] = {path,
                                  fmt::format("expected a tensor, got a {}", name_of(value.kind))};
            continue;
        }
        tensors.push_back(file.tensor(value, name.text));
    }
}

// transformers loads the shards in the order of their names, so the last one with a tensor wins.
// An index that names another shard contradicts it.
std::set<std::string> HfTensors::add_file(const std::string& path,
                                          const std::map<std::string, std::string>& index) {
    std::vector<SourceTensor> tensors;
    is_torch_file(path) ? read_torch(path, tensors) : read_safetensors(path, tensors);
    std::set<std::string> names;
    for (SourceTensor& tensor : tensors) {
        const std::string name = tensor.name;
        names.insert(name);
        const auto [at, added] = tensors_.try_emplace(name, std::move(tensor));
        if (added || same_elements(at->second, tensor)) continue;
        const auto listed = index.find(name);
        if (listed == index.end() || listed->second != path) {
            run_error(path,
                      "tensor {} differs from the tensor of this name in {}{}: remove it from one "
                      "of the two",
                      name, at->second.path(),
                      listed == index.end()
                          ? ""
                          : ", which the index names, and transformers loads the last shard");
        }
        note("{}: tensor {} is read, as the index says; {} has it with other values", path, name,
             at->second.path());
        at->second = std::move(tensor);
    }
    for (const auto& [name, unread] : unread_) {
        if (unread.path == path) names.insert(name);
    }
    return names;
}

void HfTensors::add_index(const std::string& directory, const std::string& index) {
    has_index_ = true;
    const auto map = io::json_get<io::Json>(io::read_json(index), "weight_map", index);
    if (!map.is_object()) run_error(index, "corrupt: 'weight_map' is not an object");
    std::map<std::string, std::vector<std::string>> by_file;
    std::map<std::string, std::string> paths;
    for (const auto& [tensor, file] : map.items()) {
        const auto stated = io::json_as<std::string>(file, "'" + tensor + "'", index);
        const std::string name = shard_in_directory(stated);
        if (name.empty())
            run_error(index, "corrupt: '{}' is not a file name below {}", stated, directory);
        by_file[name].push_back(tensor);
        paths[tensor] = directory + "/" + name;
        listed_.insert(tensor);
    }
    for (const auto& [file, names] : by_file) {
        const std::string path = directory + "/" + file;
        if (!io::exists(path)) {
            run_error(index, "names {}, which does not exist: copy all files of the model", file);
        }
        const std::set<std::string> found = add_file(path, paths);
        for (const std::string& name : names) {
            if (!found.contains(name)) absent_[name] = path;
        }
    }
    std::erase_if(absent_, [&](const auto& entry) {
        return tensors_.contains(entry.first) || unread_.contains(entry.first);
    });
}

const SourceTensor* HfTensors::find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
}

bool same_elements(const SourceTensor& a, const SourceTensor& b) {
    constexpr i64 most = i64{4} << 20;
    const DType dtype = a.storage->dtype;
    if (a.shape != b.shape || b.storage->dtype != dtype) return false;
    if (a.shape.empty() || a.shape.size() > 2) return true;  // no parameter of a model
    const SourceMatrix x = a.matrix();
    const SourceMatrix y = b.matrix();
    const i64 rows = std::max<i64>(1, most / std::max<i64>(1, x.cols));
    std::vector<std::byte> bytes_x;
    std::vector<std::byte> bytes_y;
    SourceReader reader;
    for (i64 row = 0; row < x.rows; row += rows) {
        const i64 end = std::min(row + rows, x.rows);
        bytes_x.resize(static_cast<size_t>((end - row) * x.cols * size_of(dtype)));
        bytes_y.resize(bytes_x.size());
        reader.read(x.row_range(row, end), dtype, bytes_x.data(), x.cols);
        reader.read(y.row_range(row, end), dtype, bytes_y.data(), y.cols);
        if (bytes_x != bytes_y) return false;
    }
    return true;
}

DType hf_weights_type(const std::string& path) {
    const HfTensors tensors = HfTensors::open(path);
    if (tensors.all().empty()) return DType::fp32;
    const DType first = tensors.all().begin()->second.storage->dtype;
    const bool same = std::ranges::all_of(
        tensors.all(), [&](const auto& entry) { return entry.second.storage->dtype == first; });
    return same && is_half(first) ? first : DType::fp32;
}

std::vector<std::vector<std::string>> plan_shards(const std::vector<SizedName>& tensors,
                                                  i64 max_bytes) {
    std::vector<std::vector<std::string>> shards;
    std::vector<std::string> current;
    i64 bytes = 0;
    for (const SizedName& tensor : tensors) {
        if (tensor.bytes > max_bytes) {
            shards.push_back({tensor.name});
            continue;
        }
        if (bytes + tensor.bytes > max_bytes) {
            shards.push_back(std::exchange(current, {}));
            bytes = 0;
        }
        current.push_back(tensor.name);
        bytes += tensor.bytes;
    }
    if (!current.empty()) shards.push_back(std::move(current));
    return shards;
}

std::string shard_name(i64 shard, i64 n_shards, std::string_view stem, std::string_view ending) {
    if (n_shards == 1) return fmt::format("{}{}", stem, ending);
    return fmt::format("{}-{:05}-of-{:05}{}", stem, shard + 1, n_shards, ending);
}

std::string index_json(const std::vector<std::vector<std::string>>& shards, i64 total_bytes,
                       std::string_view stem, std::string_view ending) {
    io::Json index;
    index["metadata"]["total_size"] = total_bytes;
    for (size_t shard = 0; shard < shards.size(); ++shard) {
        for (const std::string& name : shards[shard]) {
            index["weight_map"][name] =
                shard_name(static_cast<i64>(shard), static_cast<i64>(shards.size()), stem, ending);
        }
    }
    return io::json_text(index);
}

namespace {

constexpr const char* more_templates = "additional_chat_templates";

void copy_file(const std::string& from, const std::string& to) {
    io::write_file(to, io::read_file(from), io::Overwrite::no);
}

// Returns the added token of a tokenizer.json with this id; an empty text if there is none.
std::string added_token(const std::string& tokenizer_json, i64 id) {
    const io::Json json = io::parse_json(tokenizer_json, "tokenizer.json");
    for (const io::Json& token :
         io::json_get_or<std::vector<io::Json>>(json, "added_tokens", {}, "tokenizer.json")) {
        if (io::json_get<i64>(token, "id", "tokenizer.json") == id)
            return io::json_get<std::string>(token, "content", "tokenizer.json");
    }
    return {};
}

// Returns the token of a vocab.json with this id; an empty text if there is none.
std::string vocabulary_token(const std::string& vocab_json, i64 id) {
    const io::Json json = io::parse_json(vocab_json, "vocab.json");
    for (const auto& [token, of_token] : json.items()) {
        if (of_token == id) return token;
    }
    return {};
}

}  // namespace

void copy_tokenizer(const std::string& from, const std::string& to) {
    if (!io::is_directory(from))
        usage_error("--tokenizer", "{} is not a directory: give the directory of a tokenizer",
                    from);
    const std::vector<ckpt::TokenizerFile> files = ckpt::tokenizer_files_in(from);
    if (files.empty()) {
        usage_error(
            "--tokenizer",
            "{} has no tokenizer.json, vocab.json or merges.txt: give the directory of a tokenizer",
            from);
    }
    ckpt::write_tokenizer_files(files, to);
    const std::string templates = from + "/" + more_templates;
    if (!io::is_directory(templates)) return;
    io::make_directories(to + "/" + more_templates);
    for (const std::string& name : io::list_directory(templates)) {
        if (name.ends_with(".jinja"))
            copy_file(templates + "/" + name, fmt::format("{}/{}/{}", to, more_templates, name));
    }
}

void write_tokenizer(const std::vector<ckpt::TokenizerFile>& files, i64 end_of_document,
                     i64 max_length, const std::string& to) {
    ckpt::write_tokenizer_files(files, to);
    const auto find = [&](std::string_view name) {
        return std::ranges::find(files, name, &ckpt::TokenizerFile::name);
    };
    if (find("tokenizer_config.json") != files.end()) return;
    const auto whole = find("tokenizer.json");
    const auto vocabulary = find("vocab.json");
    if (whole == files.end() && vocabulary == files.end()) return;
    const bool is_whole = whole != files.end();
    io::Json config = {{"tokenizer_class", is_whole ? "PreTrainedTokenizerFast" : "GPT2Tokenizer"},
                       {"clean_up_tokenization_spaces", false},
                       {"model_max_length", max_length}};
    const std::string end = is_whole ? added_token(*whole->text, end_of_document)
                                     : vocabulary_token(*vocabulary->text, end_of_document);
    if (!end.empty()) config["eos_token"] = end;
    io::write_file(to + "/tokenizer_config.json", io::json_text(config), io::Overwrite::no);
}

void write_gpt2_tokenizer(const std::string& to, i64 max_length) {
    for (const char* name : {"vocab.json", "merges.txt"}) {
        copy_file(share_file(std::string("tokenizers/gpt2/") + name), to + "/" + name);
    }
    constexpr const char* special = "<|endoftext|>";
    const io::Json config = {{"tokenizer_class", "GPT2Tokenizer"},
                             {"add_prefix_space", false},
                             {"model_max_length", max_length},
                             {"bos_token", special},
                             {"eos_token", special},
                             {"unk_token", special}};
    io::write_file(to + "/tokenizer_config.json", io::json_text(config), io::Overwrite::no);
}

}  // namespace lm::convert
