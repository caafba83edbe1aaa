// SPDX-License-Identifier: Apache-2.0
#include "base/hash.hpp"

#include <fmt/format.h>
#include <xxhash.h>

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
