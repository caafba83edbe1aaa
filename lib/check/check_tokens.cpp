// SPDX-License-Identifier: Apache-2.0
#include "check/check_tokens.hpp"

#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "base/version.hpp"
#include "io/file.hpp"
#include "spec/tensor_table.hpp"
#include "text/byte_tokenizer.hpp"
#include "text/choice/tokenizer_choice.hpp"

namespace lm::check {
namespace {

constexpr i64 gpt2_vocabulary = 50257;
constexpr const char* english = "texts/gettysburg.txt";  // the Gettysburg Address

// Returns the tokenizer in `directory`, or nullptr if the directory has none.
std::shared_ptr<const text::Tokenizer> tokenizer_in(const std::string& directory) {
    if (directory.empty()) return nullptr;
    const auto choice = text::choice_in(directory);
    return choice ? text::load_tokenizer(*choice) : nullptr;
}

std::shared_ptr<const text::Tokenizer> tokenizer_for(i64 vocab_size,
                                                     const std::vector<std::string>& directories) {
    for (const std::string& directory : directories) {
        if (auto found = tokenizer_in(directory)) return found;
    }
    if (vocab_size == gpt2_vocabulary) return text::load_tokenizer({});
    auto bytes = text::make_byte_tokenizer();
    return vocab_size == bytes->vocab_size() ? bytes : nullptr;
}

}  // namespace

CheckTokens check_tokens(const spec::ModelConfig& model,
                         const std::vector<std::string>& directories) {
    constexpr i64 fewest = 64;
    constexpr i64 most = 512;
    constexpr i64 work = 20'000'000'000;  // tokens times parameters
    const i64 by_work = work / std::max<i64>(1, spec::count_parameters(model).total());
    const i64 n = std::min(std::clamp(by_work, fewest, most), model.max_positions);
    CheckTokens result;
    std::string reason = "no tokenizer of the model was found";
    try {
        if (const auto tokenizer = tokenizer_for(model.vocab_size, directories)) {
            result.ids = tokenizer->encode(io::read_file(share_file(english)));
            if (std::ssize(result.ids) > n) result.ids.resize(static_cast<size_t>(n));
            // A tokenizer of another model may have larger ids.
            if (!result.ids.empty() &&
                std::ranges::all_of(result.ids, [&](i32 id) { return id < model.vocab_size; })) {
                result.what = fmt::format("{} tokens of English text", result.ids.size());
                return result;
            }
            reason = "the tokenizer is not that of the model";
        }
    } catch (const Error& error) {
        // Logits of random tokens compare the models as well. So a tokenizer that lm-utils does not
        // support does not fail the conversion.
        reason = error.what();
    }
    result.ids.resize(static_cast<size_t>(std::min(fewest, model.max_positions)));
    const u64 key = stream_key(1, "lm-convert --check");
    for (size_t i = 0; i < result.ids.size(); ++i) {
        result.ids[i] = static_cast<i32>(uniform(key, i) * static_cast<double>(model.vocab_size));
    }
    result.what = fmt::format("{} random tokens ({})", result.ids.size(), reason);
    return result;
}

}  // namespace lm::check
