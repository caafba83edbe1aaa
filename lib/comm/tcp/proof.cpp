// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/proof.hpp"

#include <sodium.h>

#include "base/error.hpp"

namespace lm::comm {
namespace {

void initialize() {
    static const bool ready = sodium_init() >= 0;
    if (!ready) run_error("libsodium", "cannot be initialized: no random numbers");
}

template <typename T>
void add(crypto_auth_hmacsha256_state& state, const T& value) {
    crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(&value),
                                  sizeof value);
}

}  // namespace

Nonce random_nonce() {
    initialize();
    Nonce nonce;
    randombytes_buf(nonce.data(), nonce.size());
    return nonce;
}

std::string random_token() {
    const Nonce bytes = random_nonce();
    std::string text(2 * bytes.size() + 1, '\0');
    sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
    text.pop_back();  // the final zero
    return text;
}

Proof prove(const std::string& token, Prover prover, int rank, const Hello& hello,
            const Nonce& nonce) {
    initialize();
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, reinterpret_cast<const unsigned char*>(token.data()),
                                token.size());
    add(state, prover);
    add(state, rank);
    add(state, hello);
    add(state, nonce);
    Proof proof;
    static_assert(sizeof proof == crypto_auth_hmacsha256_BYTES);
    crypto_auth_hmacsha256_final(&state, proof.data());
    return proof;
}

bool is_equal(const Proof& a, const Proof& b) {
    return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lm::comm
