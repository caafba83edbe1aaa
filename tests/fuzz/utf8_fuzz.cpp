// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as UTF-8. Validation, decoding and replacement agree, and normal forms of
// valid text are valid and stable.
#include <cstdlib>
#include <string>

#include "base/utf8.hpp"
#include "text/normalizer/normalizer.hpp"

namespace {

using namespace lm;
using namespace lm::text;

void require(bool condition) {
    if (!condition) std::abort();
}

void check_normal_forms(std::string_view text) {
    using Kind = NormalizerStep::Kind;
    for (const Kind kind : {Kind::nfc, Kind::nfd, Kind::nfkc, Kind::nfkd}) {
        const Normalizer normalizer({{kind}});
        Normalizer::Buffers buffers;
        const std::string once(normalizer.apply(text, buffers));
        require(is_valid_utf8(once));
        require(normalizer.apply(once, buffers) == once);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    std::string again, lossy;
    i64 first_invalid = -1, n_invalid = 0;
    for (std::size_t i = 0; i < size;) {
        const DecodedChar d = decode_utf8(std::string_view(bytes).substr(i));
        require(d.length >= 1 && i + static_cast<std::size_t>(d.length) <= size);
        if (!d.valid && n_invalid++ == 0) first_invalid = static_cast<i64>(i);
        require(d.valid || d.code_point == 0xFFFD);
        append_utf8(again, d.code_point);
        i += static_cast<std::size_t>(d.length);
    }
    require(find_invalid_utf8(bytes) == first_invalid);
    require(append_utf8_lossy(lossy, bytes) == n_invalid && lossy == again && is_valid_utf8(lossy));
    check_normal_forms(lossy);
    return 0;
}
