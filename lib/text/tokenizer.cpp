// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.hpp"

#include <algorithm>
#include <new>

namespace lm::text {

// Uses realloc, which moves the pages of a large block instead of copying them.
void IdBuffer::grow(size_t n_bytes) {
    if (consume_ && used_ > 0 && used_ + n_bytes > most_) {
        consume_();
        n_consumed_ += size();
        used_ = 0;
        if (n_bytes <= capacity_) return;
    }
    const size_t doubled = consume_ ? std::min(2 * capacity_, most_) : 2 * capacity_;
    const size_t capacity = std::max(used_ + n_bytes, doubled);
    void* larger = std::realloc(bytes_.get(), capacity);
    if (larger == nullptr) throw std::bad_alloc();
    (void)bytes_.release();
    bytes_.reset(static_cast<std::byte*>(larger));
    capacity_ = capacity;
}

void IdBuffer::release() {
    clear();
    bytes_.reset();
    capacity_ = 0;
}

void IdBuffer::widen(i32* ids, i64 n) {
    const char* narrow = reinterpret_cast<const char*>(ids);
    for (i64 i = n - 1; i >= 0; --i) {
        u16 id;
        std::memcpy(&id, narrow + 2 * i, sizeof id);
        ids[i] = id;
    }
}

void Tokenizer::decode(std::span<const i32> ids, std::string& out) const {
    for (const i32 id : ids) out.append(token(id));
}

std::vector<i32> Tokenizer::encode(std::string_view text) const {
    IdBuffer buffer(true);
    make_encoder(static_cast<i64>(text.size()))->encode(text, buffer);
    const std::span<const i32> ids = buffer.ids<i32>();
    return {ids.begin(), ids.end()};
}

}  // namespace lm::text
