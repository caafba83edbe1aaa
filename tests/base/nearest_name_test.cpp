// SPDX-License-Identifier: Apache-2.0
#include "base/nearest_name.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace lm;

namespace {

std::string refusal(const std::string& value, const std::vector<std::string>& choices) {
    try {
        refuse_value("--x", value, choices);
    } catch (const Error& error) {
        CHECK(error.code() == Exit::usage);
        return error.what();
    }
}

}  // namespace

TEST_CASE("unknown names: the only known name with the same first or last word is suggested") {
    const std::vector<std::string> known{"--temperature", "--top-p", "--num-layers",
                                         "--skip-train-iteration-range"};
    CHECK(nearest_name("--temp", known) == "--temperature");
    CHECK(nearest_name("--layers", known) == "--num-layers");
    CHECK(nearest_name("--range", known).empty());
    CHECK(nearest_name("gpt2", {"hf-gpt2", "hf-llama", "megatron-lm"}) == "hf-gpt2");
    CHECK(nearest_name("gpt2", {"hf-gpt2", "old-gpt2"}).empty());
}

TEST_CASE("a wrong value: a choice in other case or of another framework is suggested") {
    const std::vector<std::string> types{"fp32", "bf16", "fp16"};
    CHECK_THAT(refusal("float32", types),
               HasInOrder("--x: 'float32' ", "fp32, bf16, fp16: ", " fp32?"));
    CHECK_THAT(refusal("BFloat16", types), EndsWith(" bf16?"));
    CHECK_THAT(refusal("BF16", types), EndsWith(" bf16?"));
    CHECK_THAT(refusal("int8", types), EndsWith("fp16"));
    CHECK_THAT(refusal("half", {"linear"}), EndsWith("linear"));
    CHECK_THAT(refusal("hf", {"native", "hf-gpt2", "hf-llama"}), EndsWith(" hf-?"));
    CHECK_THAT(refusal("gpt2bpetokenizer", {"GPT2BPETokenizer", "HFTokenizer"}),
               EndsWith(" GPT2BPETokenizer?"));
}
