// SPDX-License-Identifier: Apache-2.0
#include "convert/check_openable.hpp"

#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/steps.hpp"
#include "convert/from_hf.hpp"
#include "convert/megatron/open_megatron.hpp"

namespace lm::convert {

void check_openable(const std::string& path, Format format) {
    ConversionRequest request;
    request.in = path;
    if (format == Format::native) {
        ckpt::open(path);
    } else if (is_megatron(format)) {
        open_megatron(request).sources().check_complete(path);
    } else {
        open_hf(path).import.check_complete(path);
    }
}

}  // namespace lm::convert
