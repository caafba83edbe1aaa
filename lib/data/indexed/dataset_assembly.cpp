// SPDX-License-Identifier: Apache-2.0
#include "data/indexed/dataset_assembly.hpp"

#include <fcntl.h>

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "io/checked.hpp"

namespace lm::data {
namespace {

// Calls use(first, values) for each block of the [n] i32 values in the file `path`. With an empty
// `path`, all n values are 1.
void for_each_read_block(const std::string& path, i64 n,
                         const std::function<void(i64 first, const std::vector<i32>&)>& use) {
    io::Fd fd;
    if (!path.empty()) fd = io::open_read(path);
    std::vector<i32> values;
    for (i64 begin = 0; begin < n; begin += idx_entries_at_once) {
        values.assign(static_cast<size_t>(std::min(idx_entries_at_once, n - begin)), 1);
        if (fd.valid())
            io::read_exact(fd, path, std::as_writable_bytes(std::span(values)), 4 * begin);
        use(begin, values);
    }
}

i64 n_blocks_of(i64 bytes) {
    return ceil_div(bytes, BlockDigester::block_bytes);
}

}  // namespace

DatasetAssembly::DatasetAssembly(std::vector<PartState> parts, TokenType type, std::string bin,
                                 std::string idx)
    : parts_(std::move(parts)), type_(type), bin_(std::move(bin)), idx_(std::move(idx)) {
    for (const PartState& part : parts_) {
        starts_.push_back({total_.bytes, total_.sequences, total_.documents});
        total_.bytes += part.bytes;
        total_.sequences += part.sequences;
        total_.documents += part.documents;
        total_.largest_id = std::max(total_.largest_id, part.largest_id);
    }
}

i64 DatasetAssembly::idx_bytes() const {
    return idx_header_bytes + 12 * total_.sequences + 8 * (total_.documents + 1);
}

void DatasetAssembly::place(i64 i, const std::string& stem, bool with_bin) {
    const PartState& part = parts_[static_cast<size_t>(i)];
    if (with_bin) {
        // Several processes open this file and write different parts of it, so it is created
        // without O_EXCL.
        const io::Fd bin(io::checked::create(bin_, O_RDWR));
        const std::string source = DatasetPart::bin_of(stem);
        const io::Fd from = io::open_read(source);
        io::checked::copy_to(bin.get(), bin_, starts_[static_cast<size_t>(i)].bytes, from.get(),
                             source, part.bytes);
        io::checked::fsync(bin.get(), bin_);
    }
    const io::Fd idx(io::checked::create(idx_, O_RDWR));
    place_index(i, stem, idx.get());
    io::checked::fsync(idx.get(), idx_);
}

void DatasetAssembly::place_index(i64 i, const std::string& stem, int idx) {
    const PartState& part = parts_[static_cast<size_t>(i)];
    const Start start = starts_[static_cast<size_t>(i)];
    const i64 pointers = idx_header_bytes + 4 * total_.sequences;
    const i64 documents = pointers + 8 * total_.sequences;
    const auto write = [&](std::span<const std::byte> bytes, i64 offset) {
        io::checked::write_at(idx, idx_, bytes, offset);
    };
    if (i == 0) {
        write(to_bytes({type_, total_.sequences, total_.documents + 1}), 0);
        const i64 zero = 0;
        write(std::as_bytes(std::span(&zero, 1)), documents);
    }
    i64 pointer = start.bytes;
    std::vector<i64> entries;
    const auto add_up = [&](const std::vector<i32>& lengths) {
        entries.clear();
        for (const i32 length : lengths) {
            entries.push_back(pointer);
            pointer += length * size_of(type_);
        }
    };
    for_each_read_block(DatasetPart::lengths_of(stem), part.sequences,
                        [&](i64 first, const std::vector<i32>& lengths) {
                            const i64 at = start.sequences + first;
                            add_up(lengths);
                            write(std::as_bytes(std::span(lengths)), idx_header_bytes + 4 * at);
                            write(std::as_bytes(std::span(entries)), pointers + 8 * at);
                        });
    i64 sequence = start.sequences;
    for_each_read_block(part.counted ? DatasetPart::documents_of(stem) : "", part.documents,
                        [&](i64 first, const std::vector<i32>& counts) {
                            entries.clear();
                            for (const i32 count : counts) entries.push_back(sequence += count);
                            write(std::as_bytes(std::span(entries)),
                                  documents + 8 * (start.documents + first + 1));
                        });
}

i64 DatasetAssembly::n_bin_blocks() const {
    return n_parts() == 1 ? 0 : n_blocks_of(bin_bytes());
}

i64 DatasetAssembly::n_blocks() const {
    return n_bin_blocks() + n_blocks_of(idx_bytes());
}

std::string DatasetAssembly::block_digest(i64 block) const {
    const i64 n_bin = n_bin_blocks();
    const std::string& path = block < n_bin ? bin_ : idx_;
    const i64 begin = (block < n_bin ? block : block - n_bin) * BlockDigester::block_bytes;
    const i64 size = block < n_bin ? bin_bytes() : idx_bytes();
    const i64 end = std::min(size, begin + BlockDigester::block_bytes);
    const io::Fd fd = io::open_read(path);
    Digester digester;
    std::vector<std::byte> bytes;
    for (i64 at = begin; at < end; at += static_cast<i64>(bytes.size())) {
        bytes.resize(static_cast<size_t>(std::min(i64{1} << 20, end - at)));
        io::read_exact(fd, path, bytes, at);
        digester.update(bytes);
    }
    return digester.finish();
}

void DatasetAssembly::fill_in(DatasetMetadata& facts,
                              const std::vector<std::string>& digests) const {
    LM_CHECK(static_cast<i64>(digests.size()) == n_blocks(), "expected {} digests, got {}",
             n_blocks(), digests.size());
    const auto end_of_bin = digests.begin() + n_bin_blocks();
    facts.documents = total_.documents;
    facts.sequences = total_.sequences;
    facts.tokens = total_.bytes / size_of(type_);
    facts.dtype = type_;
    facts.largest_id = total_.largest_id;
    facts.bin = {bin_bytes(), n_parts() == 1
                                  ? parts_[0].bin_digest
                                  : BlockDigester::combine({digests.begin(), end_of_bin})};
    facts.idx = {idx_bytes(), BlockDigester::combine({end_of_bin, digests.end()})};
}

}  // namespace lm::data
