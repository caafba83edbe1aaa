// SPDX-License-Identifier: Apache-2.0
// How the option table is put into words, shared by help, man page and completion.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/options.hpp"

namespace lm::cli {

// Options under their headings, in order of declaration, with -h/--help and --version at the end;
// hidden, accepted and refused ones are left out.
std::vector<std::pair<std::string, std::vector<Option>>> groups_of(const Options& options);
std::vector<Option> operands_of(const Options& options);
std::vector<Option> accepted_of(const Options& options);

// Does "..." stand behind the metavar? Not when that says itself how many: "START INCREMENT
// SAMPLES".
bool has_dots(const Option& option);
std::string operand_text(const Option& operand);  // "DIR", "[STEP]", "CKPT..."
std::string capitalised(std::string text);        // not names: fp16, tokenizer.json
std::vector<std::string> wrap(std::string_view text, size_t width);

}  // namespace lm::cli
