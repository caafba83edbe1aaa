// SPDX-License-Identifier: Apache-2.0
#include "base/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace lm {
namespace {

std::string text_of(XXH128_hash_t hash) {
    return fmt::format("xxh3:{:016x}{:016x}", hash.high64, hash.low64);
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

// Returns the digest of a large file. `blocks` was updated with the digests of the file's blocks.
std::string text_of_blocks(const Digester& blocks) {
    return "xxh3-64m:" + blocks.finish().substr(std::strlen("xxh3:"));
}

}  // namespace

Hash128 hash128(std::span<const std::byte> bytes) {
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    return {hash.high64, hash.low64};
}

std::string hex_of(const Hash128& hash) {
    return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

bool parse_hex(std::string_view digits, Hash128& hash) {
    if (digits.size() != 32) return false;
    const char* const begin = digits.data();
    const auto high = std::from_chars(begin, begin + 16, hash.high, 16);
    const auto low = std::from_chars(begin + 16, begin + 32, hash.low, 16);
    return high.ptr == begin + 16 && low.ptr == begin + 32;
}

struct Digester::State {
    XXH3_state_t* xxh = XXH3_createState();
    State() { XXH3_128bits_reset(xxh); }
    ~State() { XXH3_freeState(xxh); }
    State(const State& other) { XXH3_copyState(xxh, other.xxh); }
    State& operator=(const State&) = delete;
};

Digester::Digester() : state_(std::make_unique<State>()) {}
Digester::~Digester() = default;
Digester::Digester(const Digester& other) : state_(std::make_unique<State>(*other.state_)) {}
Digester::Digester(Digester&&) noexcept = default;
Digester& Digester::operator=(const Digester& other) {
    return *this = Digester(other);
}
Digester& Digester::operator=(Digester&&) noexcept = default;

void Digester::update(std::span<const std::byte> bytes) {
    XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

std::string Digester::finish() const {
    return text_of(XXH3_128bits_digest(state_->xxh));
}

void BlockDigester::update(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const auto room = static_cast<size_t>(block_bytes - n_bytes_ % block_bytes);
        const std::span<const std::byte> part = bytes.first(std::min(bytes.size(), room));
        block_.update(part);
        n_bytes_ += static_cast<i64>(part.size());
        bytes = bytes.subspan(part.size());
        if (n_bytes_ % block_bytes > 0) continue;
        blocks_.update(bytes_of(block_.finish()));
        block_ = Digester();
    }
}

std::string BlockDigester::finish() const {
    if (n_bytes_ % block_bytes == 0) return text_of_blocks(blocks_);
    Digester all = blocks_;
    all.update(bytes_of(block_.finish()));
    return text_of_blocks(all);
}

std::string BlockDigester::combine(const std::vector<std::string>& blocks) {
    Digester all;
    for (const std::string& block : blocks) all.update(bytes_of(block));
    return text_of_blocks(all);
}

u64 hash64(std::string_view bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

std::string digest(std::span<const std::byte> bytes) {
    return text_of(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string digest(std::string_view bytes) {
    return digest(bytes_of(bytes));
}

}  // namespace lm
