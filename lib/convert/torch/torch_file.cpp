// SPDX-License-Identifier: Apache-2.0
#include "convert/torch/torch_file.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/error.hpp"
#include "convert/torch/pickle_reader.hpp"
#include "convert/torch/zip_archive.hpp"
#include "io/file.hpp"
#include "io/other_format.hpp"

namespace lm::convert {
namespace {

constexpr i64 max_pickle_bytes = i64{256} << 20;
constexpr std::string_view zip_magic("PK\x03\x04", 4);
// Files of the older format begin with a pickle of the number 0x1950a86a20f9469cfc6c (MAGIC_NUMBER
// in torch/serialization.py).
constexpr std::string_view old_magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e",
                                     15);

std::vector<std::byte> read_bytes(const std::string& path, i64 offset, i64 n) {
    std::vector<std::byte> bytes(static_cast<size_t>(n));
    io::read_exact(io::open_read(path), path, bytes, offset);
    return bytes;
}

bool starts_with(const std::string& path, i64 begin, i64 end, std::string_view magic) {
    const auto n = static_cast<i64>(magic.size());
    if (end - begin < n) return false;
    const auto bytes = read_bytes(path, begin, n);
    return std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

std::string text_of(const std::string& path, const ZipEntry& entry) {
    constexpr i64 most = 100;
    const auto bytes = read_bytes(path, entry.offset, std::min(entry.size, most));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool is_torch_file(const std::string& path) {
    const i64 size = io::file_size(path);
    return starts_with(path, 0, size, zip_magic) || starts_with(path, 0, size, old_magic);
}

TorchFile TorchFile::open(const std::string& path) {
    return open(path, 0, io::file_size(path));
}

TorchFile TorchFile::open(const std::string& path, i64 begin, i64 end) {
    TorchFile file;
    file.path_ = path;
    if (starts_with(path, begin, end, zip_magic)) {
        file.open_zip(begin, end);
    } else if (begin == 0 && starts_with(path, begin, end, old_magic)) {
        file.open_old(end);
    } else if (const auto other = io::other_format_of(path); begin == 0 && !other.empty()) {
        run_error(path, "is {}", other);
    } else {
        run_error(path,
                  "is not a file of torch.save: expected a ZIP archive, or the older format of "
                  "torch.save");
    }
    file.check_storages();
    return file;
}

void TorchFile::open_zip(i64 begin, i64 end) {
    const ZipArchive archive = ZipArchive::open(path_, begin, end);
    if (archive.entries().empty()) run_error(path_, "corrupt: the archive has no entries");
    const std::string& first = archive.entries().front().name;
    const std::string folder = first.substr(0, first.find('/') + 1);
    const auto required = [&](const char* name) -> const ZipEntry& {
        const ZipEntry* entry = archive.find(folder + name);
        if (!entry) run_error(path_, "corrupt: the archive has no entry {}{}", folder, name);
        return *entry;
    };
    const std::string version = text_of(path_, required("version"));
    if (version.empty() || version[0] < '1' || version[0] > '9') {
        run_error(path_, "corrupt: expected a number in the entry 'version', got '{}'", version);
    }
    if (const ZipEntry* order = archive.find(folder + "byteorder")) {
        const std::string text = text_of(path_, *order);
        if (text != "little") run_error(path_, "expected little-endian data, got '{}'", text);
    }
    const ZipEntry& data = required("data.pkl");
    if (data.size > max_pickle_bytes) {
        run_error(path_, "expected a pickle of at most {} bytes, got {}", max_pickle_bytes,
                  data.size);
    }
    RecordCheck check{.offset = data.offset, .size = data.size, .crc = data.crc};
    verify(path_, check);
    const auto bytes = read_bytes(path_, data.offset, data.size);
    size_t at = 0;
    pickle_ = std::make_shared<Pickle>(parse_pickle(bytes, at, path_));
    const std::string prefix = folder + "data/";
    for (const ZipEntry& entry : archive.entries()) {
        if (!entry.name.starts_with(prefix)) continue;
        Extent extent{path_, entry.offset, entry.size, nullptr};
        if (entry.crc != 0) {
            extent.check = std::make_shared<RecordCheck>();
            extent.check->offset = entry.offset;
            extent.check->size = entry.size;
            extent.check->crc = entry.crc;
        }
        records_[entry.name.substr(prefix.size())] = std::move(extent);
    }
}

// Reads a file of the older format. It has five pickles: a magic number, the protocol version, the
// system, the object, and the keys of the object's storages. After the pickles, the file has the
// number of elements and the data of each storage, in the order of the keys.
void TorchFile::open_old(i64 size) {
    const auto bytes = read_bytes(path_, 0, std::min(size, max_pickle_bytes));
    size_t at = 0;
    parse_pickle(bytes, at, path_);
    const Pickle protocol = parse_pickle(bytes, at, path_);
    if (!protocol.root->is(PickleValue::Kind::integer) || protocol.root->integer != 1001) {
        run_error(path_,
                  "unknown protocol version: expected 1001, the version of torch.save's format "
                  "without zip: save the file again with torch.save");
    }
    const Pickle system = parse_pickle(bytes, at, path_);
    const PickleValue* little = system.root->find("little_endian");
    if (little && !little->boolean) run_error(path_, "expected little-endian data");
    pickle_ = std::make_shared<Pickle>(parse_pickle(bytes, at, path_));
    const Pickle keys = parse_pickle(bytes, at, path_);
    std::map<std::string, i64> element_bytes;
    for (const PickleValue& value : pickle_->values) {
        if (!value.is(PickleValue::Kind::storage)) continue;
        element_bytes[value.tensor[0].storage_key] = value.tensor[0].element_bytes;
    }
    auto offset = static_cast<i64>(at);
    for (const PickleValue* key : keys.root->items) {
        const auto known = element_bytes.find(key->text);
        if (known == element_bytes.end())
            run_error(path_, "corrupt: the list of storages names a storage that no tensor uses");
        if (size - offset < 8) run_error(path_, "truncated: storage {} is missing", key->text);
        u64 n = 0;
        std::memcpy(&n, read_bytes(path_, offset, 8).data(), 8);
        offset += 8;
        if (n > static_cast<u64>((size - offset) / known->second)) {
            run_error(path_, "truncated: storage {} states {} elements, the file has bytes for {}",
                      key->text, n, (size - offset) / known->second);
        }
        const i64 n_bytes = static_cast<i64>(n) * known->second;
        records_[key->text] = Extent{path_, offset, n_bytes, nullptr};
        offset += n_bytes;
    }
}

// Checks that each storage of the pickle has a record of the size that the pickle states.
void TorchFile::check_storages() const {
    for (const PickleValue& value : pickle_->values) {
        if (!value.is(PickleValue::Kind::storage)) continue;
        const PickledTensor& stated = value.tensor[0];
        const auto record = records_.find(stated.storage_key);
        const i64 n_bytes = stated.storage_numel * stated.element_bytes;
        if (record == records_.end()) {
            run_error(path_, "corrupt: storage {} is missing", stated.storage_key);
        }
        if (record->second.n != n_bytes) {
            run_error(path_, "corrupt: storage {}: expected {} bytes, got {}", stated.storage_key,
                      n_bytes, record->second.n);
        }
    }
}

SourceTensor TorchFile::tensor(const PickleValue& value, const std::string& name) const {
    if (!value.is(PickleValue::Kind::tensor)) {
        run_error(path_, "{}: expected a tensor, got a {}", name, name_of(value.kind));
    }
    const PickledTensor& from = value.tensor[0];
    if (!from.dtype) {
        run_error(path_, "tensor {}: expected float64, float32, bfloat16 or float16, got {}", name,
                  from.type);
    }
    auto storage = std::make_shared<Storage>(Storage{*from.dtype, {records_.at(from.storage_key)}});
    storage->extents[0].n /= from.element_bytes;
    return {name, std::move(storage), from.offset, from.shape, from.strides};
}

}  // namespace lm::convert
