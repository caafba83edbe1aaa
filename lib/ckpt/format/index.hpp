// SPDX-License-Identifier: Apache-2.0
// Index parts: lists of the data files and slices of a checkpoint. A part has the files of one
// writer, or of several.
//
// A slice is a part of one tensor in one kind of state. It has a box ([start, end) in each
// dimension of the global, unpadded shape) and a range. The slice holds the elements [flat_begin,
// flat_end) of the box in row-major order. A slice is one entry of a safetensors file. The entry
// has the shape of the box, or is 1-D when the range is not the whole box (a ZeRO shard). Slices of
// one kind cover each tensor exactly once, whatever layout wrote them.
//
// A slice has a digest for each block of 16 MiB, so that a part of the slice can be verified alone.
// Bytes of a file that belong to no slice are padding and zero (data_file.hpp).
//
// Why a tree of digests: blocks of 16 MiB, then index parts, then the manifest.
//
// One digest of a whole file would be simpler, and useless where it matters. A run that resumes in
// another layout reads ranges of files that others wrote, and would have to read all bytes of a
// 50 GB file to trust 1 GB of it. A file is written by eight ranks at once, and no rank sees its
// bytes in order. And a flipped bit would be reported as "the file is corrupt", with nothing said
// about which tensor of which layer has to be distrusted.
//
// With blocks, whoever reads a block checks it in the same pass, while it is in the cache: XXH3
// runs at memory speed, so that verification costs no second read (load reaches 82 to 89 % of the
// direct reads of the disk). 16 MiB is the unit of direct I/O as well (io/block_file.hpp). Smaller
// blocks would let the index grow (at 16 MiB a digest is 2 bytes for each MiB of data), larger ones
// would leave less to do in parallel and more memory to hold before a block is trusted.
//
// The index parts are separate files because a checkpoint of 9,984 ranks has 697,416 slices: 52 MB
// of JSON. One rank of about 64 writes the part of its block of ranks, and a rank that resumes
// opens the 13 to 26 parts that hold its tensors. The manifest has the digest of each part, and
// `latest` the digest of the manifest, so that three lines of text vouch for every byte of the
// step. XXH3 is not a cryptographic hash: it protects from storage, not from an attacker.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/hash.hpp"
#include "base/shape.hpp"
#include "ckpt/format/geometry.hpp"
#include "ckpt/format/kind.hpp"
#include "ckpt/format/manifest.hpp"
#include "io/block_file.hpp"
#include "spec/rank_layout.hpp"

namespace lm::ckpt {

struct Slice {
    i64 tensor = 0;  // index into Manifest::tensors
    SliceKind kind;
    DType dtype = DType::fp32;
    spec::Box box;
    i64 flat_begin = 0;
    i64 flat_end = 0;
    i64 offset = 0;        // offset of the slice's first byte in the file
    i64 first_digest = 0;  // index of the digest of its first block in DataFile::digests
    i64 numel() const { return flat_end - flat_begin; }
    i64 n_bytes() const { return numel() * size_of(dtype); }
    i64 end() const { return offset + n_bytes(); }
    bool whole_box() const { return flat_begin == 0 && flat_end == box.shape().numel(); }
    i64 n_blocks() const { return ceil_div(n_bytes(), io::block_bytes); }
    i64 block_begin(i64 block) const { return offset + block * io::block_bytes; }  // in the file
    i64 block_end(i64 block) const { return std::min(block_begin(block + 1), end()); }
    // The elements of a block.
    Region region(i64 block) const {
        const i64 n = io::block_bytes / size_of(dtype);
        return {box, flat_begin + block * n, std::min(flat_begin + (block + 1) * n, flat_end)};
    }
};

struct DataFile {
    std::string name;  // name in the directory of the manifest
    i64 size = 0;
    i64 header_bytes = 0;
    std::string header_digest;     // digest of the length field and the JSON header
    std::vector<Slice> slices;     // ordered by offset
    std::vector<Hash128> digests;  // one for each block of each slice
    const Hash128& digest_of(const Slice& slice, i64 block) const {
        return digests[static_cast<size_t>(slice.first_digest + block)];
    }
};

// index-RRRRR.json: the files of writer R, and possibly of the writers after R.
struct IndexPart {
    i64 writer = 0;
    std::vector<DataFile> files;
};

// Returns the JSON text of a part, grouped by file, kind and type, with one slice per line:
// [tensor, offset, [start..., end...], [flat_begin, flat_end] or [] for the whole box, digests].
std::string index_text(const IndexPart& part);
// Parses the text of a part. Throws DamageError naming `path` for text that is not JSON or lacks a
// key, and for impossible values.
IndexPart parse_index(std::string_view text, const std::string& path);

// Returns the reference to a part whose text is `text`, with its range of tensors and its totals.
IndexReference reference_to(const IndexPart& part, std::string_view text);

std::string index_name(i64 writer);  // "index-00000.json"
std::string data_file_name(SliceKind kind,
                           i64 writer);  // "weights-00000.safetensors" or "optim-..."

}  // namespace lm::ckpt
