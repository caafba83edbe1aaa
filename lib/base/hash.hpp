// SPDX-License-Identifier: Apache-2.0
// XXH3 hashes (https://github.com/Cyan4973/xxHash): 64 bits for keys in memory, 128 bits for the
// digests and checksums written to files.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm {

u64 hash64(std::string_view bytes);

// Returns the digest of `bytes` in the form that files hold: "xxh3:" and the 32 hexadecimal digits
// of XXH3-128 in canonical (big-endian) order.
std::string digest(std::span<const std::byte> bytes);
std::string digest(std::string_view bytes);

// The 128 bits of a digest.
struct Hash128 {
    u64 high = 0;
    u64 low = 0;
    friend bool operator==(const Hash128&, const Hash128&) = default;
};
Hash128 hash128(std::span<const std::byte> bytes);
std::string hex_of(const Hash128& hash);  // 32 digits: digest() without its prefix
// Parses 32 hex digits into `hash`. Returns false when `digits` is not 32 hex digits.
bool parse_hex(std::string_view digits, Hash128& hash);

// Computes digest() of bytes that arrive in several updates.
class Digester {
  public:
    Digester();
    ~Digester();
    Digester(const Digester&);
    Digester(Digester&&) noexcept;
    Digester& operator=(const Digester&);
    Digester& operator=(Digester&&) noexcept;
    void update(std::span<const std::byte> bytes);
    // Returns the digest of all bytes so far; more updates may follow.
    std::string finish() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// Computes the digest of a large file, which is divided into blocks of 64 MiB. The digest is
// "xxh3-64m:" and the XXH3-128 of the concatenated texts that digest() returns for the blocks.
// Several processes can each digest some of the blocks; combine() then computes the digest of the
// file.
class BlockDigester {
  public:
    static constexpr i64 block_bytes = i64{64} << 20;

    void update(std::span<const std::byte> bytes);
    // Returns the digest of all bytes so far; more updates may follow. The time of this
    // call does not depend on the number of bytes.
    std::string finish() const;
    i64 n_bytes() const { return n_bytes_; }  // total of all updates
    // Returns the digest of a whole file from the digests of its blocks, in their order.
    static std::string combine(const std::vector<std::string>& blocks);

  private:
    Digester blocks_;  // digests the digests of the complete blocks
    Digester block_;   // digests the bytes of the incomplete last block
    i64 n_bytes_ = 0;
};

}  // namespace lm
