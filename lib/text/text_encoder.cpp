// SPDX-License-Identifier: Apache-2.0
#include "text/text_encoder.hpp"

#include "base/error.hpp"

namespace lm::text {
namespace {

class TextEncoder : public Encoder {
  public:
    TextEncoder(const TextPlan& plan, std::unique_ptr<Encoder> plain)
        : plan_(plan), plain_(std::move(plain)) {}

    i64 encode(std::string_view text, u16* out) override { return encode_text(text, out); }
    i64 encode(std::string_view text, i32* out) override { return encode_text(text, out); }

    u64 operations() const override { return plain_->operations(); }

  private:
    template <typename Id>
    i64 encode_text(std::string_view text, Id* out) {
        Id* at = out;
        const auto put = [&](i32 id) { *at++ = static_cast<Id>(id); };
        for (const i32 id : plan_.prefix) put(id);
        plan_.raw.split(
            text, [&](std::string_view part) { at = encode_raw(part, at); }, put);
        for (const i32 id : plan_.suffix) put(id);
        return at - out;
    }

    template <typename Id>
    Id* encode_raw(std::string_view text, Id* at) {
        const auto put = [&](i32 id) { *at++ = static_cast<Id>(id); };
        const auto plain = [&](std::string_view part) { at = encode_plain(part, at); };
        text = plan_.normalizer.apply(text, normalized_);
        if (static_cast<i64>(text.size()) >= Tokenizer::longest_text)
            run_error("a text", "is longer than 2 GiB after its normalizer");
        plan_.normalized.split(text, plain, put);
        return at;
    }

    template <typename Id>
    Id* encode_plain(std::string_view text, Id* at) {
        if (plan_.prefix_space && !text.starts_with(' ')) {
            spaced_.assign(" ").append(text);
            text = spaced_;
        }
        return at + plain_->encode(text, at);
    }

    const TextPlan& plan_;
    std::unique_ptr<Encoder> plain_;
    std::string normalized_, spaced_;
};

}  // namespace

std::unique_ptr<Encoder> make_text_encoder(const TextPlan& plan, std::unique_ptr<Encoder> plain) {
    if (plan.is_trivial()) return plain;
    return std::make_unique<TextEncoder>(plan, std::move(plain));
}

}  // namespace lm::text
