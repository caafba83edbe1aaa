// SPDX-License-Identifier: Apache-2.0
#include "convert/formats/check_output.hpp"

#include "base/error.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/steps.hpp"
#include "convert/hf/config_json.hpp"
#include "convert/hf/from_hf.hpp"
#include "convert/megatron/open_megatron.hpp"
#include "io/file.hpp"

namespace lm::convert {

void check_output(const std::string& path, const ModelFormat& format) {
    if (format.is_hugging_face() && !io::exists(hf_config_path(path))) {
        usage_error(path,
                    "exists without config.json: remove the directory, and run lm-convert again");
    }
    const ModelFormat found = detect_format(path);
    if (found != format) {
        usage_error(path, "exists with the format {}, expected {}: use --force to replace it",
                    name_of(found), name_of(format));
    }
    ConversionRequest request;
    request.in = path;
    if (format == Format::native) {
        ckpt::open(path);
    } else if (format.is_megatron()) {
        open_megatron(request).sources().check_complete(path);
    } else {
        open_hf(path).import.check_complete(path);
    }
}

}  // namespace lm::convert
