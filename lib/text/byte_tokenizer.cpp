// SPDX-License-Identifier: Apache-2.0
#include "text/byte_tokenizer.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/hash.hpp"

namespace lm::text {
namespace {

constexpr i32 end_of_document_id = 256;

class ByteEncoder : public Encoder {
  public:
    i64 encode(std::string_view text, IdBuffer& out) override {
        constexpr size_t at_once = size_t{1} << 16;
        for (size_t begin = 0; begin < text.size(); begin += at_once) {
            const std::string_view some = text.substr(begin, at_once);
            out.append<u16>(static_cast<i64>(some.size()), [&](u16* to) {
                return std::transform(some.begin(), some.end(), to,
                                      [](char byte) { return static_cast<u8>(byte); });
            });
        }
        return static_cast<i64>(text.size());
    }
};

class ByteTokenizer : public Tokenizer {
  public:
    ByteTokenizer() : bytes_(256, '\0'), digest_(lm::digest("lm-utils ByteTokenizer 1")) {
        std::iota(bytes_.begin(), bytes_.end(), '\0');
    }
    std::string_view type() const override { return "ByteTokenizer"; }
    i64 vocab_size() const override { return end_of_document_id + 1; }
    std::optional<i32> eod() const override { return end_of_document_id; }
    const std::string& digest() const override { return digest_; }
    std::unique_ptr<Encoder> make_encoder(i64 /*text_bytes*/) const override {
        return std::make_unique<ByteEncoder>();
    }
    bool has_token(i32 id) const override { return id >= 0 && id <= end_of_document_id; }
    std::string_view token(i32 id) const override {
        if (id == end_of_document_id) return {};
        if (!has_token(id))
            run_error("ByteTokenizer", "id {} is out of range: expected 0 to {}", id,
                      end_of_document_id);
        return std::string_view(bytes_).substr(static_cast<size_t>(id), 1);
    }

  private:
    std::string bytes_;
    std::string digest_;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_byte_tokenizer() {
    return std::make_shared<ByteTokenizer>();
}

}  // namespace lm::text
