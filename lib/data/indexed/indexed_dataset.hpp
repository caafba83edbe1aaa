// SPDX-License-Identifier: Apache-2.0
// Reading a Megatron indexed dataset: P.bin (raw token ids) and P.idx (sequence lengths, pointers
// and document boundaries), as MMapIndexedDataset / IndexedDataset of Megatron-LM write them.
// Layout:
//   0  "MMIDIDX\0\0" | 9 u64 version 1 | 17 u8 dtype code | 18 u64 S sequences |
//   26 u64 D = documents + 1 |
//   34 i32 length[S] | i64 pointer[S] (bytes into .bin) | i64 document[D] | optional i8 mode[S]
// all little endian and unaligned. Training splits by sequence, so "sequence" is the unit here.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/types.hpp"
#include "io/file.hpp"

namespace lm::data {

// The dtype byte of the .idx header. 6 and 7 (floats) are refused.
enum class TokenType : u8 { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };

i64 size_of(TokenType type);               // bytes per token
std::string_view name_of(TokenType type);  // "uint16", "int32"...
i64 largest_id(TokenType type);            // the largest id that fits
// Megatron's rule: uint16 below a vocabulary of 65500, int32 from there on.
TokenType token_type_for(i64 vocab_size);

std::string bin_path(std::string_view prefix);       // PREFIX.bin
std::string idx_path(std::string_view prefix);       // PREFIX.idx
std::string metadata_path(std::string_view prefix);  // PREFIX.json
// Error(usage) when one of the first two is not there.
void require_dataset(const std::string& prefix);

// Both files mapped read-only. All const members may be called from many threads at once.
class IndexedDataset {
  public:
    // O(1) whatever the size: checks magic, version, dtype, that both files have exactly the size
    // the header and the last entries imply, and the first and last entries. Everything read later
    // is bounds-checked, so a damaged file is an error that names it, never a wild read; the full
    // pass over every entry is verify_dataset(). Throws Error(usage) when there is no such pair,
    // Error(failure) "P.idx: ..." for a damaged one.
    static IndexedDataset open(const std::string& prefix);

    const std::string& prefix() const { return prefix_; }
    i64 n_sequences() const { return n_sequences_; }
    i64 n_documents() const { return n_documents_; }
    i64 n_tokens() const { return n_tokens_; }
    TokenType token_type() const { return type_; }

    i64 bin_bytes() const { return static_cast<i64>(bin_.bytes().size()); }
    i64 idx_bytes() const { return static_cast<i64>(idx_.bytes().size()); }

    i64 length(i64 sequence) const;  // in tokens
    // Of its first token in the flat stream; n_sequences() gives n_tokens().
    i64 position(i64 sequence) const;
    // The first sequence of document `index`; n_documents() gives n_sequences().
    i64 document(i64 index) const;
    struct Extent {
        i64 begin, end;
    };
    // Where the tokens of document `index` lie in the flat stream. All of its entries are checked
    // as verify_dataset() checks them: that it does not begin before its forerunner, and that each
    // of its sequences ends where the next one begins.
    Extent document_extent(i64 index) const;
    // The sequence that holds the token at `position` of the flat stream. O(log n).
    i64 sequence_at(i64 position) const;

    // The lengths of sequences [begin, end) as they lie in the .idx; unaligned.
    std::span<const std::byte> raw_lengths(i64 begin, i64 end) const;

    // Tokens [begin, begin + out.size()) of the flat stream (the order of the .bin). Ids are not
    // checked against a vocabulary here.
    void read(i64 begin, std::span<i32> out) const;
    void read(i64 begin, std::span<i64> out) const;
    // The bytes of tokens [begin, end) as they lie in the .bin; unaligned.
    std::span<const std::byte> raw(i64 begin, i64 end) const;
    // Tells the system that these tokens are wanted soon.
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
// Of one kind, how many are held in memory while an index is made.
constexpr i64 idx_entries_at_once = i64{1} << 18;

// As it stands at the beginning of an .idx.
std::array<std::byte, idx_header_bytes> to_bytes(const IdxHeader& header);
// After the checks that need nothing but the .idx itself. Throws Error(failure) naming `path`.
IdxHeader parse_idx_header(std::span<const std::byte> idx, const std::string& path);

}  // namespace lm::data
