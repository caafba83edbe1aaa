// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as the .idx of a dataset, with a .bin of the size that its lengths imply.
// Opening, verifying and reading succeed or throw Error, and never access memory outside of the
// files.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "data/indexed/verify_dataset.hpp"
#include "fuzz_files.hpp"

namespace {

using namespace lm;

// Returns the size in bytes of a .bin for the first lengths, if it is small, else 0.
size_t bin_bytes(std::string_view idx) {
    i64 total = 0;
    i64 n = 0;
    if (idx.size() >= 34) std::memcpy(&n, idx.data() + 18, 8);
    for (i64 i = 0; i < n && 34 + 4 * static_cast<size_t>(i) + 4 <= idx.size() && i < 1000; ++i) {
        i32 length;
        std::memcpy(&length, idx.data() + 34 + 4 * i, 4);
        total += length;
    }
    const i64 item = idx.size() > 17 && idx[17] == 8 ? 2 : 4;
    return total > 0 && total < 10000 ? static_cast<size_t>(total * item) : 0;
}

void read_all(const data::IndexedDataset& dataset) {
    std::vector<i32> ids;
    for (i64 s = 0; s < dataset.n_sequences(); ++s) {
        ids.resize(static_cast<size_t>(dataset.length(s)));
        dataset.read(dataset.position(s), ids);
        if (!ids.empty()) (void)dataset.sequence_at(dataset.position(s));
    }
    for (i64 d = 0; d <= dataset.n_documents(); ++d) (void)dataset.document(d);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const std::string idx(reinterpret_cast<const char*>(bytes), size);
    const std::string prefix = fuzz::directory() + "/p";
    fuzz::put("p.idx", idx);
    fuzz::put("p.bin", std::string(bin_bytes(idx), '\1'));
    try {
        read_all(data::IndexedDataset::open(prefix));
    } catch (const Error& error) {
        if (error.code() != Exit::failure) std::abort();
    }
    (void)data::verify_dataset(prefix, {});
    return 0;
}
