// SPDX-License-Identifier: Apache-2.0
// Hardware for tests of estimates.
#pragma once

#include "cost/hardware.hpp"
#include "io/file.hpp"

namespace lm::cost {

// Returns share/hardware/NAME.txt.
inline Hardware shared_hardware(const std::string& name) {
    const std::string path = std::string(LM_SHARE_DIR) + "/hardware/" + name + ".txt";
    return parse_hardware(path, io::read_file(path));
}

}  // namespace lm::cost
