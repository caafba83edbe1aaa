// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/damage.hpp"

#include "io/json.hpp"

namespace lm::ckpt {

std::string read_step_file(const std::string& path) {
    return parsed(path, [&] { return io::read_json_text(path); });
}

}  // namespace lm::ckpt
