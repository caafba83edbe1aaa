// SPDX-License-Identifier: Apache-2.0
// XXH3 (xxhash): 64 bits for keys, 128 bits for the digests and checksums written to files.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm {

u64 hash64(std::string_view bytes);

// A digest as it stands in files: "xxh3:" and 32 hexadecimal digits (XXH3-128, canonical order).
std::string digest(std::span<const std::byte> bytes);
std::string digest(std::string_view bytes);

// The same digest over a stream of pieces.
class Digester {
  public:
    Digester();
    ~Digester();
    Digester(Digester&&) noexcept;
    Digester& operator=(Digester&&) noexcept;
    void update(std::span<const std::byte> bytes);
    std::string finish() const;  // of all that was added up to now; more may be added

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// The digest of a large file, which many processes can compute together: "xxh3-64m:" and the
// XXH3-128 over the digests (as digest() writes them) of its blocks of 64 MiB.
class BlockDigester {
  public:
    static constexpr i64 block_bytes = i64{64} << 20;

    void update(std::span<const std::byte> bytes);
    std::string finish() const;  // of all that was added up to now; more may be added
    // The same from the digests of the blocks, in order.
    static std::string combine(const std::vector<std::string>& blocks);

  private:
    std::vector<std::string> blocks_;
    Digester block_;
    i64 n_in_block_ = 0;
};

}  // namespace lm
