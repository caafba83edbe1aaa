// SPDX-License-Identifier: Apache-2.0
#include "data/indexed/dataset_identity.hpp"

#include <algorithm>
#include <vector>

#include "base/hash.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "io/file.hpp"

namespace lm::data {
namespace {

constexpr i64 n_pages = 8;
constexpr i64 page_bytes = 4096;

void add_pages(const std::string& path, i64 size, Digester& digester) {
    const io::Fd fd = io::open_read(path);
    const i64 n_bytes = std::min(size, page_bytes);
    std::vector<std::byte> page(static_cast<size_t>(n_bytes));
    for (i64 i = 0; i < n_pages; ++i) {
        io::read_exact(fd, path, page, (size - n_bytes) / (n_pages - 1) * i);
        digester.update(page);
    }
    io::read_exact(fd, path, page, size - n_bytes);
    digester.update(page);
}

}  // namespace

DatasetIdentity identity_of(const std::string& prefix) {
    const std::string bin = bin_path(prefix);
    const std::string idx = idx_path(prefix);
    DatasetIdentity identity{io::file_size(bin), io::file_size(idx), {}, {}};
    Digester digester;
    add_pages(idx, identity.idx_bytes, digester);
    add_pages(bin, identity.bin_bytes, digester);
    identity.samples = digester.finish();
    if (const auto metadata = read_metadata(prefix)) identity.digest = metadata->bin.digest;
    return identity;
}

bool same_dataset(const DatasetIdentity& a, const DatasetIdentity& b) {
    const bool comparable = !a.digest.empty() && !b.digest.empty();
    return a.bin_bytes == b.bin_bytes && a.idx_bytes == b.idx_bytes && a.samples == b.samples &&
           (!comparable || a.digest == b.digest);
}

}  // namespace lm::data
