// SPDX-License-Identifier: Apache-2.0
// The flags for the log, the status file, TensorBoard and codecarbon.
#pragma once

#include <optional>
#include <string>

#include "config/field.hpp"

namespace lm::config {

struct LoggingFlags {
    i64 interval = 100;                         // --log-interval, iterations
    std::string format = "megatron-deepspeed";  // described in metrics/record.hpp
    bool throughput = false;                    // TFLOP/s in the log line of the format megatron-lm
    std::string file, json;
    bool quiet = false;
    std::string status_file;
    std::string tensorboard_dir;
    i64 tensorboard_queue_size = 1000;
    bool params_norm = false, num_zeros = false;
    bool timers = false, batch_size = false, validation_ppl = false;  // also written to TensorBoard
    i64 timing_level = 0;  // --timing-log-level; 1 or more: the log has the times of the phases
    std::string codecarbon_dir;
    double codecarbon_intensity = 475;           // g of CO2 equivalent per kWh; 475: the world mean
    std::string codecarbon_country;              // ISO 3166-1 alpha-3
    std::optional<double> codecarbon_cpu_power;  // W of the processors of a host without RAPL
};

const Fields<LoggingFlags>& logging_fields();

}  // namespace lm::config
