// SPDX-License-Identifier: Apache-2.0
// Texts that tests compare with files of tests/cli/golden. LM_UPDATE_GOLDEN=1 rewrites the files.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "support/catch.hpp"

inline void check_golden(const std::string& name, const std::string& text) {
    const std::string path = std::string(LM_TEST_DIR) + "/cli/golden/" + name;
    if (std::getenv("LM_UPDATE_GOLDEN")) std::ofstream(path) << text;
    std::ostringstream expected;
    expected << std::ifstream(path).rdbuf();
    CHECK(text == expected.str());
}
