// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/data_file.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "ckpt/format/safetensors.hpp"
#include "io/block_file.hpp"
#include "io/directory.hpp"

namespace lm::ckpt {
namespace {

constexpr i64 large_bytes = i64{1} << 20;

bool is_large(const Slice& slice) {
    return slice.n_bytes() >= large_bytes;
}

// Writes units of shares, and stores the digests of their blocks.
class ShareWriter {
  public:
    ShareWriter(std::span<DataShare> shares, std::span<const io::BlockFile> files)
        : shares_(shares), files_(files) {}

    void write(size_t at_share, const FileUnit& unit, io::AlignedBlock& block) {
        DataShare& share = shares_[at_share];
        const io::BlockFile& file = files_[at_share];
        if (const std::byte* memory = memory_of(share, unit)) {
            const std::span bytes(memory, static_cast<size_t>(unit.end - unit.begin));
            digest(share, unit.first, unit.block) = hash128(bytes);
            return file.write(bytes, unit.begin);
        }
        for (size_t at = unit.first; at < unit.last; ++at) {
            const Slice& slice = share.file.slices[at];
            const i64 begin = std::max(slice.offset, unit.begin);
            const i64 end = std::min(slice.end(), unit.end);
            const auto bytes =
                block.first(end - unit.begin).subspan(static_cast<size_t>(begin - unit.begin));
            read(*share.pieces[at], bytes, begin - slice.offset);
            digest(share, at, unit.block) = hash128(bytes);
        }
        const auto all = block.first(unit.padded_end - unit.begin);
        std::ranges::fill(all.subspan(static_cast<size_t>(unit.end - unit.begin)), std::byte{0});
        file.write(all, unit.begin);
    }

  private:
    static Hash128& digest(DataShare& share, size_t slice, i64 block) {
        return share.file
            .digests[static_cast<size_t>(share.file.slices[slice].first_digest + block)];
    }

    static void read(const Piece& piece, std::span<std::byte> to, i64 offset) {
        if (piece.read) return piece.read(to, offset);
        std::memcpy(to.data(), static_cast<const std::byte*>(piece.data) + offset, to.size());
    }

    // Returns the memory of a unit if the unit is one block of a slice in aligned host memory,
    // which can be written without a copy. Returns nullptr for any other unit.
    static const std::byte* memory_of(const DataShare& share, const FileUnit& unit) {
        const Piece& piece = *share.pieces[unit.first];
        if (piece.read || unit.last - unit.first > 1) return nullptr;
        const auto* memory =
            static_cast<const std::byte*>(piece.data) + unit.block * io::block_bytes;
        const bool aligned = reinterpret_cast<uintptr_t>(memory) % io::block_alignment == 0 &&
                             unit.end == unit.padded_end;
        return aligned ? memory : nullptr;
    }

    std::span<DataShare> shares_;
    std::span<const io::BlockFile> files_;
};

// Returns distinct names for the entries of a file: "TENSOR" for weights, "TENSOR.KIND" for
// other state, followed by ".1", ".2", ... for further slices of one tensor in the file.
class EntryNames {
  public:
    std::string next(const std::string& tensor, SliceKind kind) {
        std::string base = tensor;
        if (kind != SliceKind::weight) base += fmt::format(".{}", name_of(kind));
        i64& n = n_[base];
        return n++ == 0 ? base : fmt::format("{}.{}", base, n - 1);
    }

  private:
    std::map<std::string, i64> n_;
};

SafetensorsEntry entry_of(const Slice& slice, std::string name) {
    SafetensorsEntry entry{.name = std::move(name),
                           .dtype = std::string(safetensors_name(slice.dtype)),
                           .shape = {slice.numel()},
                           .begin = slice.offset,
                           .end = slice.end()};
    const Shape shape = slice.box.shape();
    if (slice.whole_box()) entry.shape.assign(shape.dims().begin(), shape.dims().end());
    return entry;
}

}  // namespace

std::vector<FileUnit> units_of(const DataFile& file) {
    std::vector<FileUnit> units;
    const auto add = [&](FileUnit unit) {
        unit.padded_end = std::min(round_up(unit.end, io::block_alignment), file.size);
        units.push_back(unit);
    };
    const std::vector<Slice>& slices = file.slices;
    for (size_t at = 0; at < slices.size();) {
        const Slice& slice = slices[at];
        if (is_large(slice)) {
            for (i64 block = 0; block < slice.n_blocks(); ++block) {
                add({at, at + 1, block, slice.block_begin(block), slice.block_end(block)});
            }
            ++at;
            continue;
        }
        FileUnit unit{at, at, 0, slice.offset, slice.offset};
        // A unit is a run of small slices without gaps, at most a block long. plan_share() has
        // aligned each slice that would exceed this length; the next unit begins with that slice.
        while (at < slices.size() && slices[at].offset == unit.end && !is_large(slices[at]) &&
               slices[at].end() - unit.begin <= io::block_bytes) {
            unit.end = slices[at++].end();
        }
        unit.last = at;
        add(unit);
    }
    return units;
}

DataShare plan_share(const std::string& name, const std::vector<const Piece*>& pieces) {
    DataShare share;
    share.file.name = name;
    share.pieces = pieces;
    const auto bytes_of = [](const Piece* piece) {
        return (piece->flat_end - piece->flat_begin) * size_of(piece->dtype);
    };
    // Large slices come first, then the other slices, both in the order of decreasing element size,
    // so that every slice is aligned to the size of its elements.
    std::ranges::stable_sort(share.pieces, [&](const Piece* a, const Piece* b) {
        const bool large_a = bytes_of(a) >= large_bytes;
        const bool large_b = bytes_of(b) >= large_bytes;
        if (large_a != large_b) return large_a;
        if (size_of(a->dtype) != size_of(b->dtype)) return size_of(a->dtype) > size_of(b->dtype);
        return std::tie(a->kind, a->dtype) < std::tie(b->kind, b->dtype);
    });
    i64 unit_begin = 0;
    for (const Piece* piece : share.pieces) {
        Slice slice{.tensor = piece->tensor,
                    .kind = piece->kind,
                    .dtype = piece->dtype,
                    .box = piece->box,
                    .flat_begin = piece->flat_begin,
                    .flat_end = piece->flat_end,
                    .offset = share.file.size,
                    .first_digest = static_cast<i64>(share.file.digests.size())};
        const bool after_large = !share.file.slices.empty() && is_large(share.file.slices.back());
        if (is_large(slice) || after_large || slice.end() - unit_begin > io::block_bytes) {
            slice.offset = round_up(share.file.size, io::block_alignment);
            unit_begin = slice.offset;
        }
        share.file.digests.resize(share.file.digests.size() +
                                  static_cast<size_t>(slice.n_blocks()));
        share.file.size = slice.end();
        share.file.slices.push_back(slice);
    }
    return share;
}

std::string place_shares(std::span<DataFile* const> shares,
                         const std::vector<TensorInfo>& tensors) {
    // Offsets in a safetensors header count from the start of the data.
    std::vector<SafetensorsEntry> entries;
    EntryNames names;
    std::vector<i64> begins;
    i64 end = 0;
    i64 n_paddings = 0;
    for (const DataFile* share : shares) {
        begins.push_back(round_up(end, io::block_alignment));
        for (const Slice& slice : share->slices) {
            const std::string& tensor = tensors.at(static_cast<size_t>(slice.tensor)).name;
            SafetensorsEntry entry = entry_of(slice, names.next(tensor, slice.kind));
            entry.begin += begins.back();
            entry.end += begins.back();
            if (entry.begin > end) {
                entries.push_back({.name = fmt::format("padding.{}", ++n_paddings),
                                   .dtype = "U8",
                                   .shape = {entry.begin - end},
                                   .begin = end,
                                   .end = entry.begin});
            }
            end = entry.end;
            entries.push_back(std::move(entry));
        }
    }
    const std::string header = safetensors_header(entries, {{"format", "pt"}}, io::block_alignment);
    const auto header_bytes = static_cast<i64>(header.size());
    for (size_t i = 0; i < shares.size(); ++i) {
        for (Slice& slice : shares[i]->slices) slice.offset += begins[i] + header_bytes;
        shares[i]->size = header_bytes + end;
        shares[i]->header_bytes = header_bytes;
        shares[i]->header_digest = lm::digest(header);
    }
    return header;
}

void write_shares(const std::string& path, std::span<DataShare> shares) {
    const auto directory = io::Directory::open(path);
    std::vector<io::BlockFile> files;
    bool concurrent = true;
    for (const DataShare& share : shares) {
        const DataFile& file = share.file;
        files.push_back(io::BlockFile::create_shared(directory / file.name, file.size));
        files.back().write(std::as_bytes(std::span(share.header)), 0);
        for (const Piece* piece : share.pieces)
            concurrent = concurrent && (!piece->read || piece->concurrent);
    }
    std::vector<std::pair<size_t, FileUnit>> units;
    for (size_t at = 0; at < shares.size(); ++at) {
        for (const FileUnit& unit : units_of(shares[at].file)) units.emplace_back(at, unit);
    }
    // Orders the units of optimizer files, then the units of weight files, by their offsets. When
    // the pieces are read from another checkpoint, all uses of a block of that checkpoint are then
    // close together in time.
    std::ranges::stable_sort(units, {}, [&](const auto& unit) {
        const bool weights = shares[unit.first].file.slices.front().kind == SliceKind::weight;
        return std::pair(weights, unit.second.begin);
    });
    ShareWriter writer(shares, files);
    io::for_each_block(static_cast<i64>(units.size()), concurrent ? io::blocks_in_flight : 1,
                       [&](i64 at, io::AlignedBlock& block) {
                           const auto& [share, unit] = units[static_cast<size_t>(at)];
                           writer.write(share, unit, block);
                       });
    for (const io::BlockFile& file : files) file.sync();
}

void append(DataFile& file, DataFile share) {
    const auto n = static_cast<i64>(file.digests.size());
    for (Slice& slice : share.slices) {
        slice.first_digest += n;
        file.slices.push_back(slice);
    }
    file.digests.insert(file.digests.end(), share.digests.begin(), share.digests.end());
}

}  // namespace lm::ckpt
