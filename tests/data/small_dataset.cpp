// SPDX-License-Identifier: Apache-2.0
#include "small_dataset.hpp"

#include <fstream>

namespace lm::test {
namespace {

template <typename T>
void put(std::ofstream& file, T value) {
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

void write_dataset(const std::string& prefix, const std::vector<std::vector<u16>>& documents) {
    std::ofstream bin(prefix + ".bin", std::ios::binary);
    std::ofstream idx(prefix + ".idx", std::ios::binary);
    idx.write("MMIDIDX\0\0", 9);
    put<u64>(idx, 1);
    put<u8>(idx, 8);
    put<u64>(idx, documents.size());
    put<u64>(idx, documents.size() + 1);
    for (const auto& document : documents) put<i32>(idx, static_cast<i32>(document.size()));
    i64 pointer = 0;
    for (const auto& document : documents) {
        put<i64>(idx, pointer);
        pointer += static_cast<i64>(document.size()) * 2;
        for (const u16 token : document) put<u16>(bin, token);
    }
    for (size_t k = 0; k <= documents.size(); ++k) put<i64>(idx, static_cast<i64>(k));
}

void write_counting(const std::string& prefix, const std::vector<i64>& lengths) {
    std::vector<std::vector<u16>> documents;
    i64 next = 0;
    for (const i64 length : lengths) {
        auto& document = documents.emplace_back();
        for (i64 k = 0; k < length; ++k) document.push_back(static_cast<u16>(next++ % 60000));
    }
    write_dataset(prefix, documents);
}

data::TokenRange whole(const std::string& prefix, i64 vocab_size) {
    auto dataset = std::make_shared<const data::IndexedDataset>(data::IndexedDataset::open(prefix));
    const i64 n = dataset->n_sequences();
    return {std::move(dataset), {0, n}, vocab_size};
}

std::vector<i32> sample(const data::SampleSource& source, i64 number) {
    std::vector<i32> tokens(static_cast<size_t>(source.seq_length()) + 1);
    source.fill(number, tokens);
    return tokens;
}

}  // namespace lm::test
