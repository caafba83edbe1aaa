// SPDX-License-Identifier: Apache-2.0
#include "base/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace lm {
namespace {

std::string text_of(XXH128_hash_t hash) {
    return fmt::format("xxh3:{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

struct Digester::State {
    XXH3_state_t* xxh = XXH3_createState();
    State() { XXH3_128bits_reset(xxh); }
    ~State() { XXH3_freeState(xxh); }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
};

Digester::Digester() : state_(std::make_unique<State>()) {}
Digester::~Digester() = default;
Digester::Digester(Digester&&) noexcept = default;
Digester& Digester::operator=(Digester&&) noexcept = default;

void Digester::update(std::span<const std::byte> bytes) {
    XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

std::string Digester::finish() const {
    return text_of(XXH3_128bits_digest(state_->xxh));
}

void BlockDigester::update(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const auto room = static_cast<size_t>(block_bytes - n_in_block_);
        const std::span<const std::byte> part = bytes.first(std::min(bytes.size(), room));
        block_.update(part);
        n_in_block_ += static_cast<i64>(part.size());
        bytes = bytes.subspan(part.size());
        if (n_in_block_ < block_bytes) continue;
        blocks_.push_back(block_.finish());
        block_ = Digester();
        n_in_block_ = 0;
    }
}

std::string BlockDigester::finish() const {
    std::vector<std::string> blocks = blocks_;
    if (n_in_block_ > 0) blocks.push_back(block_.finish());
    return combine(blocks);
}

std::string BlockDigester::combine(const std::vector<std::string>& blocks) {
    std::string text;
    for (const std::string& block : blocks) text += block;
    return "xxh3-64m:" + digest(std::string_view(text)).substr(std::strlen("xxh3:"));
}

u64 hash64(std::string_view bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

std::string digest(std::span<const std::byte> bytes) {
    return text_of(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string digest(std::string_view bytes) {
    return digest(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

}  // namespace lm
