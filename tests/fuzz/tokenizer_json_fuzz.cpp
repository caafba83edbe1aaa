// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as a tokenizer.json. Loading throws Error, or the tokenizer gives ids in
// range and decodes them.
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "fuzz_files.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_json/read_tokenizer.hpp"

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

void use(const lm::text::Tokenizer& tokenizer) {
    for (const char* text :
         {"", "Hello  world\n don't 123", " e\u0301\u00A0x<|endoftext|> ", "a"}) {
        std::string back;
        const auto ids = tokenizer.encode(text);
        for (const lm::i32 id : ids) require(id >= 0 && id < tokenizer.vocab_size());
        tokenizer.decode(ids, back);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string path =
        lm::fuzz::put("tokenizer.json", {reinterpret_cast<const char*>(data), size});
    for (const auto special : {lm::text::SpecialInText::plain, lm::text::SpecialInText::parse}) {
        try {
            use(*lm::text::load_hf_tokenizer(path, special));
        } catch (const lm::Error& error) {
            require(error.code() == lm::Exit::failure);
        }
    }
    return 0;
}
