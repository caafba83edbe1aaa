// SPDX-License-Identifier: Apache-2.0
// The line in the logs for a start that ends before the training begins.
#pragma once

#include "base/error.hpp"
#include "config/logging_flags.hpp"

namespace lm::train {

// Appends the error of a start to --log-file, and to --log-json as an event "error". Call it for
// errors before run(), which writes its own errors to the logs. Does not throw. A file that cannot
// be written is skipped.
void log_refused_start(const config::LoggingFlags& logging, const Error& error) noexcept;

}  // namespace lm::train
