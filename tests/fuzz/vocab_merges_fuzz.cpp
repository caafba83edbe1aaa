// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as vocab.json, a zero byte, and merges.txt. Loading throws Error, or
// decoding inverts encoding.
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "fuzz_files.hpp"
#include "text/gpt2_tokenizer.hpp"
#include "text/tokenizer.hpp"

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::size_t cut = std::min(input.find('\0'), size);
    const std::string vocab = lm::fuzz::put("vocab.json", input.substr(0, cut));
    const std::string merges = lm::fuzz::put("merges.txt", input.substr(std::min(cut + 1, size)));
    try {
        const auto tokenizer =
            lm::text::load_gpt2_tokenizer(vocab, merges, lm::text::SpecialInText::parse);
        const std::string text = "Hello  world\n don't 123<|endoftext|>";
        std::string back;
        tokenizer->decode(tokenizer->encode(text), back);
        require(back == text);
    } catch (const lm::Error& error) {
        require(error.code() == lm::Exit::failure);
    }
    return 0;
}
