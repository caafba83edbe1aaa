// SPDX-License-Identifier: Apache-2.0
// Lists and texts that help, man page and completion derive from the option table.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/options.hpp"

namespace lm::cli {

// Returns the options under their headings, in order of declaration. -h/--help, --help-all (when it
// prints more) and --version are at the end. Omits hidden, accepted and refused options.
std::vector<std::pair<std::string, std::vector<Option>>> groups_of(const Options& options);
// Returns the options of groups_of() without their headings.
std::vector<Option> shown_options(const Options& options);
std::vector<Option> operands_of(const Options& options);
std::vector<Option> accepted_of(const Options& options);

// Returns whether help and man page print "..." after the metavar. This is the case when the option
// takes several values and the metavar is not a list such as "START INCREMENT SAMPLES".
bool has_dots(const Option& option);
// The values that a shell completes.
enum class CompletedValue { none, words, files, pairs, steps };
// Returns how the value of an option is completed: as one of completed_words(), as the prefix of a
// .bin and .idx pair, or as a file name.
CompletedValue completed_value(const Option& option);
const std::vector<std::string>& completed_words(const Option& option);
// Returns how operands are completed: as prefixes of pairs if the first operand is PREFIX, as
// a directory and one of its steps if the second operand is STEP, else as file names.
CompletedValue completed_operand(const Options& options);
std::string verb_name(const Options& options, const Options& verb);  // "ls" of "lm-ckpt ls"

std::string operand_text(const Option& operand);  // "DIR", "[STEP]", "CKPT..."
std::string capitalized(std::string text);        // keeps names such as fp16 in lower case
// Returns the lines of `text`, each of at most `width` bytes unless a single word is longer.
std::vector<std::string> wrap(std::string_view text, size_t width);

}  // namespace lm::cli
