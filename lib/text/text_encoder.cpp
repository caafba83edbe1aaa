// SPDX-License-Identifier: Apache-2.0
#include "text/text_encoder.hpp"

namespace lm::text {
namespace {

class TextEncoder : public Encoder {
  public:
    TextEncoder(const TextSteps& steps, std::unique_ptr<Encoder> plain)
        : steps_(steps), plain_(std::move(plain)) {}

    i64 encode(std::string_view text, IdBuffer& out) override {
        const i64 before = out.count();
        const auto put = [&](i32 id) { out.push(id); };
        for (const i32 id : steps_.prefix) put(id);
        steps_.raw.split(
            text, [&](std::string_view part) { encode_raw(part, out); }, put);
        for (const i32 id : steps_.suffix) put(id);
        return out.count() - before;
    }

    void release() override {
        normalized_ = {};
        spaced_ = {};
        plain_->release();
    }

    u64 operations() const override { return plain_->operations(); }

  private:
    void encode_raw(std::string_view text, IdBuffer& out) {
        steps_.normalized.split(
            steps_.normalizer.apply(text, normalized_),
            [&](std::string_view part) { encode_plain(part, out); }, [&](i32 id) { out.push(id); });
    }

    void encode_plain(std::string_view text, IdBuffer& out) {
        if (steps_.prefix_space && !text.starts_with(' ')) {
            spaced_.assign(" ").append(text);
            text = spaced_;
        }
        plain_->encode(text, out);
    }

    const TextSteps& steps_;
    std::unique_ptr<Encoder> plain_;
    Normalizer::Buffers normalized_;
    std::string spaced_;
};

}  // namespace

std::unique_ptr<Encoder> make_text_encoder(const TextSteps& steps, std::unique_ptr<Encoder> plain) {
    if (steps.is_trivial()) return plain;
    return std::make_unique<TextEncoder>(steps, std::move(plain));
}

}  // namespace lm::text
