// SPDX-License-Identifier: Apache-2.0
#include "cost/peak_flops.hpp"

#include <initializer_list>

namespace lm::cost {
namespace {

// The figures are from NVIDIA's data sheet of each GPU. Most sheets state 16-bit figures with
// sparsity; the table has half of these figures.
struct Peak {
    std::initializer_list<std::string_view>
        words;         // the GPU's name contains all of them; the first match counts
    double tflops_16;  // bf16 and fp16
    double tflops_fp32;
};
const Peak peaks[] = {
    {{"A100"}, 312, 19.5},       {{"A30"}, 165, 10.3},       {{"A40"}, 149.7, 37.4},
    {{"H100", "PCIe"}, 756, 51}, {{"H100", "NVL"}, 835, 60}, {{"H100"}, 989, 67},
    {{"H200", "NVL"}, 835, 60},  {{"H200"}, 989, 67},        {{"GH200"}, 989, 67},
    {{"B200"}, 2250, 80},        {{"L40S"}, 362, 91.6},      {{"L4"}, 121, 30.3},
};

// Returns true when `text` contains `word` as a whole word: "L40" does not contain "L4".
bool has_word(std::string_view text, std::string_view word) {
    const auto separates = [](char c) {
        return std::string_view(" -_()").find(c) != std::string_view::npos;
    };
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
        const size_t end = at + word.size();
        if ((at == 0 || separates(text[at - 1])) && (end == text.size() || separates(text[end]))) {
            return true;
        }
    }
    return false;
}

}  // namespace

bool is_slice(std::string_view device) {
    return has_word(device, "MIG");
}

std::optional<double> peak_flops(std::string_view device, DType dtype) {
    if (is_slice(device)) return std::nullopt;
    for (const Peak& peak : peaks) {
        bool fits = true;
        for (const std::string_view word : peak.words) fits = fits && has_word(device, word);
        if (fits) return 1e12 * (is_half(dtype) ? peak.tflops_16 : peak.tflops_fp32);
    }
    return std::nullopt;
}

}  // namespace lm::cost
