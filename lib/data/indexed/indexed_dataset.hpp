// SPDX-License-Identifier: Apache-2.0
// Reads a Megatron indexed dataset: P.bin (token ids) and P.idx (sequence lengths, pointers and
// document boundaries), as MMapIndexedDataset and IndexedDataset of Megatron-LM write them.
// Layout of the .idx:
//   0  "MMIDIDX\0\0" | 9 u64 version 1 | 17 u8 dtype code | 18 u64 S sequences |
//   26 u64 D = documents + 1 |
//   34 i32 length[S] | i64 pointer[S] (bytes into .bin) | i64 document[D] | optional i8 mode[S]
// All numbers are little endian and unaligned.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/types.hpp"
#include "io/file.hpp"

namespace lm::data {

// The dtype byte of the .idx header. The codes 6 and 7 (floating point) are refused.
enum class TokenType : u8 { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };

i64 size_of(TokenType type);               // bytes per token
std::string_view name_of(TokenType type);  // "uint16", "int32"...
i64 largest_id(TokenType type);            // the largest id that the type can hold
// Returns the type by Megatron's rule: uint16 for a vocabulary below 65500, else int32.
TokenType token_type_for(i64 vocab_size);

std::string bin_path(std::string_view prefix);       // PREFIX.bin
std::string idx_path(std::string_view prefix);       // PREFIX.idx
std::string metadata_path(std::string_view prefix);  // PREFIX.json
// Throws Error(usage) when the .bin or the .idx does not exist.
void require_dataset(const std::string& prefix);

// The two files of a dataset, mapped read-only. All const members may be called from several
// threads.
class IndexedDataset {
  public:
    // Opens PREFIX.bin and PREFIX.idx in O(1). Checks magic, version, dtype, the first and last
    // entries, and the sizes of both files against these entries. Every later access is bounds
    // checked, so a corrupt file causes an error and never an invalid read. verify_dataset() checks
    // all entries. Throws Error(usage) when a file does not exist, Error(failure) when it is
    // corrupt.
    static IndexedDataset open(const std::string& prefix);

    const std::string& prefix() const { return prefix_; }
    i64 n_sequences() const { return n_sequences_; }
    i64 n_documents() const { return n_documents_; }
    // Returns whether the .idx has a mode of each sequence, as those of Megatron's multimodal
    // datasets. Nothing here reads modes.
    bool has_modes() const {
        return idx_.bytes().data() + idx_bytes() > documents_ + 8 * (n_documents_ + 1);
    }
    i64 n_tokens() const { return n_tokens_; }
    TokenType token_type() const { return type_; }

    i64 bin_bytes() const { return static_cast<i64>(bin_.bytes().size()); }
    i64 idx_bytes() const { return static_cast<i64>(idx_.bytes().size()); }

    i64 length(i64 sequence) const;  // in tokens
    // Returns the position of the sequence's first token in the flat stream, which has all tokens
    // in the order of the .bin. position(n_sequences()) is n_tokens().
    i64 position(i64 sequence) const;
    // Returns the first sequence of document `index`; document(n_documents()) is n_sequences().
    i64 document(i64 index) const;
    struct FlatRange {
        i64 begin, end;
    };
    // Returns the tokens of document `index` as a range of the flat stream. Checks that documents
    // are monotonic and that each sequence ends where the next one begins.
    FlatRange document_extent(i64 index) const;
    // Returns the sequence that has the token at `position` of the flat stream. O(log n).
    i64 sequence_at(i64 position) const;

    // Returns the lengths of sequences [begin, end) as bytes of the .idx: [end - begin] i32,
    // unaligned.
    std::span<const std::byte> raw_lengths(i64 begin, i64 end) const;

    // Copies tokens [begin, begin + out.size()) of the flat stream. Ids are not checked against a
    // vocabulary.
    void read(i64 begin, std::span<i32> out) const;
    void read(i64 begin, std::span<i64> out) const;
    // Returns tokens [begin, end) as bytes of the .bin; unaligned.
    std::span<const std::byte> raw(i64 begin, i64 end) const;
    // Asks the kernel to read tokens [begin, end) in advance (madvise MADV_WILLNEED).
    void prefetch(i64 begin, i64 end) const;

  private:
    IndexedDataset() = default;
    template <typename T>
    void read_as(i64 begin, std::span<T> out) const;

    std::string prefix_;
    io::MappedFile idx_, bin_;
    TokenType type_ = TokenType::u16;
    i64 item_ = 2;
    i64 n_sequences_ = 0, n_documents_ = 0, n_tokens_ = 0;
    const std::byte* lengths_ = nullptr;
    const std::byte* pointers_ = nullptr;
    const std::byte* documents_ = nullptr;
};

struct IdxHeader {
    TokenType type;
    i64 n_sequences;
    i64 n_document_entries;  // documents + 1
};
constexpr i64 idx_header_bytes = 34;
// While an .idx is written, this many entries of one array are in memory at a time.
constexpr i64 idx_entries_at_once = i64{1} << 18;

// Returns the bytes of the header, with which an .idx begins.
std::array<std::byte, idx_header_bytes> to_bytes(const IdxHeader& header);
// Parses and checks the header, and checks that the size of the .idx matches it. Throws
// Error(failure) naming `path`.
IdxHeader parse_idx_header(std::span<const std::byte> idx, const std::string& path);

}  // namespace lm::data
