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
    Digester(const Digester&);
    Digester(Digester&&) noexcept;
    Digester& operator=(const Digester&);
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
    // Of all that was added up to now; more may be added. It takes the same time however much.
    std::string finish() const;
    i64 n_bytes() const { return n_bytes_; }  // that were added
    // The same from the digests of the blocks, in order.
    static std::string combine(const std::vector<std::string>& blocks);

  private:
    Digester blocks_;  // over the digests of the whole ones
    Digester block_;   // over what comes behind them
    i64 n_bytes_ = 0;
};

}  // namespace lm
