// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/dist_checkpoint.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "convert/torch/pickle_reader.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

namespace lm::convert {
namespace {

using Kind = PickleValue::Kind;

constexpr i64 max_metadata_bytes = i64{1} << 30;

// Returns the numbers of a torch.Size. Throws Error(failure) for any other value.
std::vector<i64> numbers(const PickleValue* size, const std::string& path) {
    std::vector<i64> all;
    if (size == nullptr || !size->is(Kind::tuple))
        run_error(path, "corrupt: expected a torch.Size");
    for (const PickleValue* item : size->items) {
        if (!item->is(Kind::integer) || item->integer < 0) {
            run_error(path, "corrupt: expected whole numbers of at least 0 in a torch.Size");
        }
        all.push_back(item->integer);
    }
    return all;
}

// Returns the entry `key` of .metadata, a dict.
const PickleValue& dict_of(const PickleValue& metadata, const char* key, const std::string& path) {
    const PickleValue* dict = metadata.find(key);
    if (dict == nullptr || !dict->is(Kind::dict))
        run_error(path, "corrupt: the entry {} is missing", key);
    return *dict;
}

i64 whole_number(const PickleValue& value, const char* key, const std::string& path) {
    const PickleValue* number = value.find(key);
    if (number == nullptr || !number->is(Kind::integer) || number->integer < 0) {
        run_error(path, "corrupt: expected a whole number '{}' of at least 0 in a record, got {}",
                  key,
                  number == nullptr           ? "none"
                  : number->is(Kind::integer) ? std::to_string(number->integer)
                                              : "another type");
    }
    return number->integer;
}

DistRecord record_of(const PickleValue& value, const std::string& directory,
                     const std::string& path) {
    const PickleValue* file = value.find("relative_path");
    const bool plain = file != nullptr && file->is(Kind::text) && io::is_plain_name(file->text);
    if (!plain)
        run_error(
            path,
            "refused: the path '{}' of a record is not the plain name of a file in this directory",
            file != nullptr && file->is(Kind::text) ? file->text : "");
    const PickleValue* transforms = value.find("transform_descriptors");
    if (transforms != nullptr && !transforms->is(Kind::none) && !transforms->items.empty()) {
        usage_error(path,
                    "has transformed (compressed) records: save the checkpoint without extensions "
                    "of the storage writer");
    }
    DistRecord record{directory + "/" + file->text, whole_number(value, "offset", path),
                      whole_number(value, "length", path)};
    if (!io::exists(record.path))
        run_error(
            record.path,
            "does not exist, but .metadata names this file: copy all files of the checkpoint");
    const i64 size = io::file_size(record.path);
    if (record.n_bytes > size || record.offset > size - record.n_bytes) {
        run_error(record.path, "truncated: expected {} bytes at {}, got a file of {} bytes",
                  record.n_bytes, record.offset, size);
    }
    return record;
}

}  // namespace

DistCheckpoint DistCheckpoint::open(const std::string& directory) {
    DistCheckpoint checkpoint;
    checkpoint.path_ = directory + "/.metadata";
    const i64 size = io::file_size(checkpoint.path_);
    if (size > max_metadata_bytes) {
        run_error(checkpoint.path_, "is too large: expected at most {} bytes, got {}",
                  max_metadata_bytes, size);
    }
    std::vector<std::byte> bytes(static_cast<size_t>(size));
    io::read_exact(io::open_read(checkpoint.path_), checkpoint.path_, bytes, 0);
    size_t at = 0;
    const Pickle metadata = parse_pickle(bytes, at, checkpoint.path_);
    checkpoint.add_tensors(*metadata.root);
    checkpoint.add_records(*metadata.root, directory);
    return checkpoint;
}

void DistCheckpoint::add_tensors(const PickleValue& metadata) {
    const PickleValue& stated = dict_of(metadata, "state_dict_metadata", path_);
    for (size_t i = 0; i + 1 < stated.items.size(); i += 2) {
        const PickleValue& key = *stated.items[i];
        const PickleValue* size = stated.items[i + 1]->find("size");
        if (!key.is(Kind::text)) run_error(path_, "corrupt: the key of a tensor is not a string");
        if (size != nullptr) tensors_[key.text].shape = numbers(size, path_);
    }
}

void DistCheckpoint::add_records(const PickleValue& metadata, const std::string& directory) {
    const PickleValue& stored = dict_of(metadata, "storage_data", path_);
    for (size_t i = 0; i + 1 < stored.items.size(); i += 2) {
        const PickleValue* key = stored.items[i]->find("fqn");
        if (key == nullptr || !key->is(Kind::text))
            run_error(path_, "corrupt: a record has no fqn");
        DistRecord record = record_of(*stored.items[i + 1], directory, path_);
        const auto tensor = tensors_.find(key->text);
        if (tensor == tensors_.end()) {
            objects_[key->text] = std::move(record);
            continue;
        }
        const PickleValue* offset = stored.items[i]->find("offset");
        // The offset may be missing if the tensor is not sharded.
        std::vector<i64> offsets(tensor->second.shape.size());
        if (offset != nullptr && !offset->is(Kind::none)) offsets = numbers(offset, path_);
        if (offsets.size() != tensor->second.shape.size()) {
            run_error(path_, "corrupt: {}: a chunk has {} offsets, expected {}", key->text,
                      offsets.size(), tensor->second.shape.size());
        }
        tensor->second.chunks.push_back({std::move(offsets), std::move(record)});
    }
}

i64 DistCheckpoint::append(const std::string& key, const std::map<i64, SourceTensor>& chunks,
                           i64 most, Storage& storage) const {
    i64 n = 0;
    for (const auto& [begin, chunk] : chunks) {
        if (begin != n) {
            run_error(path_,
                      "{}: corrupt: its chunks have a gap or an overlap: expected a chunk that "
                      "begins at element {}, got {}",
                      key, n, begin);
        }
        Extent extent = chunk.storage->extents.at(0);
        storage.dtype = chunk.storage->dtype;
        extent.offset += chunk.start * size_of(storage.dtype);
        extent.n = std::min(chunk.shape.back(), most - n);
        n += extent.n;
        storage.extents.push_back(std::move(extent));
    }
    return n;
}

SourceTensor DistCheckpoint::read(const DistChunk& chunk, const std::string& name) {
    const TorchFile file = chunk.record.open();
    SourceTensor tensor = file.tensor(file.root(), name);
    if (tensor.shape.size() != chunk.offsets.size()) {
        run_error(file.path(), "{}: expected a chunk of {} dimensions, got {}", name,
                  chunk.offsets.size(), tensor.shape.size());
    }
    return tensor;
}

bool is_torch_dist(const std::string& step) {
    return io::exists(step + "/.metadata") && io::exists(step + "/common.pt");
}

}  // namespace lm::convert
