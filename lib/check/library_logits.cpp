// SPDX-License-Identifier: Apache-2.0
#include "check/library_logits.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/error.hpp"
#include "base/version.hpp"
#include "io/program.hpp"

namespace lm::check {
namespace {

constexpr const char* option = "--check-python";

}  // namespace

LibraryLogits library_logits(const LibraryModel& model, std::span<const i32> tokens,
                             i64 vocabulary) {
    const io::ProgramResult result = io::run_program(
        {model.python, share_file("check/library_logits.py"), model.library, model.path,
         std::to_string(vocabulary), fmt::format("{}", fmt::join(tokens, ","))});
    if (result.code == 127) {
        usage_error(option, "{} does not exist: give a Python that has {}", model.python,
                    model.library);
    }
    if (result.code != 0) {
        run_error(
            option,
            "{} failed to compute the logits of {} with {}: exit code {}: see the messages above",
            model.python, model.path, model.library, result.code);
    }
    const size_t line = result.output.find('\n');
    const size_t n = tokens.size() * static_cast<size_t>(vocabulary);
    const size_t bytes = line == std::string::npos ? 0 : result.output.size() - line - 1;
    if (bytes != n * sizeof(float)) {
        run_error(option, "{}: expected {} bytes of logits, got {}", model.python,
                  n * sizeof(float), bytes);
    }
    std::vector<float> values(n);
    std::memcpy(values.data(), result.output.data() + line + 1, bytes);
    return {result.output.substr(0, line), {values.begin(), values.end()}};
}

}  // namespace lm::check
