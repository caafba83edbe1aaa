// SPDX-License-Identifier: Apache-2.0
// Writes the data files of a checkpoint, which are safetensors files. The data, and each slice of
// at least 1 MiB, start at a multiple of 4096, so that direct I/O reads and writes blocks without a
// copy by the kernel. The format allows no gaps between entries, so entries "padding.N", whose
// bytes are all zero, fill the gaps.
//
// Why safetensors and no format of our own: a step outlives the program that wrote it. The tensors
// of a file can be read in ten years, and today by every Python environment, without lm-utils. The
// header is JSON with absolute positions, so any element is one pread() away, and a file cannot
// execute code, as the pickles of torch.save can. The format lacks three things: digests, parts of
// a tensor, and a list of files. They are in the index parts (index.hpp) and the manifest, so a
// reader of safetensors that ignores them still reads each slice as a tensor.
//
// Several writers, for example the ranks of a node, may share a file. Each writer plans its share,
// one writer places all shares, then each writer writes its own share.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ckpt/format/index.hpp"
#include "ckpt/format/manifest.hpp"

namespace lm::ckpt {

// The memory of a part of one tensor: the elements [flat_begin, flat_end) of the box in row-major
// order, without gaps. The element flat_begin is at `data`. Padded vocabulary rows follow the
// elements of the box in memory, so a piece never contains them. Each element of a tensor belongs
// to exactly one writer.
struct Piece {
    i64 tensor = 0;  // index into spec::tensor_table(model)
    SliceKind kind;
    DType dtype = DType::fp32;
    spec::Box box;
    i64 flat_begin = 0;
    i64 flat_end = 0;
    const void* data = nullptr;
    // Copies to.size() bytes of the piece, starting at byte `offset` of the piece, to `to`. Set for
    // a piece that is not in host memory; `data` is then unused.
    std::function<void(std::span<std::byte> to, i64 offset)> read = {};
    // Whether several threads may call `read` at once. If false, only the saving thread calls it.
    bool concurrent = false;
};

// The bytes of a data file that are read or written at once: a block of a slice of at least 1 MiB,
// or one or more smaller slices.
struct FileUnit {
    size_t first = 0;  // slices [first, last)
    size_t last = 0;
    i64 block = 0;  // number of the block, if the slice is large
    i64 begin = 0;  // bytes [begin, end) of the file
    i64 end = 0;
    i64 padded_end = 0;  // end of the padding after these bytes
};
// Returns units that cover all slices, in the order of their offsets. No unit covers the header.
std::vector<FileUnit> units_of(const DataFile& file);

// One writer's part of a data file.
struct DataShare {
    DataFile file;  // the slices of the share; place_shares() sets their final offsets
    std::vector<const Piece*> pieces = {};  // one for each slice
    std::string header = {};                // set for the writer that writes the header of the file
};

// Returns a share of the file `name`: the pieces in their order in the file. The offsets of the
// slices count from the start of the share. The pieces must live until write_shares() returns.
DataShare plan_share(const std::string& name, const std::vector<const Piece*>& pieces);

// Changes the offsets so that the shares of one file follow each other after the header of the
// file. Stores the size of the file in each share. Returns the header.
std::string place_shares(std::span<DataFile* const> shares, const std::vector<TensorInfo>& tensors);

// Writes the headers and the data of placed shares into files of `directory`, makes the files
// durable and computes the digests. The first writer of a file creates the file.
void write_shares(const std::string& directory, std::span<DataShare> shares);
// Appends the slices of `share` to `file`. Call it for each share, in the order of the shares in
// place_shares().
void append(DataFile& file, DataFile share);

}  // namespace lm::ckpt
