// SPDX-License-Identifier: Apache-2.0
// The flags for the log, the status file, TensorBoard and codecarbon.
#pragma once

#include <optional>
#include <string>

#include "config/field.hpp"

namespace lm::config {

struct LoggingFlags {
    i64 interval = 100;                         // --log-interval, iterations
    std::string format = "megatron-deepspeed";  // metrics/record.hpp
    bool throughput = false;                    // in the format megatron-lm
    std::string file, json;
    bool quiet = false;
    std::string status_file;
    std::string tensorboard_dir;
    i64 tensorboard_queue_size = 1000;
    bool params_norm = false, num_zeros = false;
    bool timers = false, batch_size = false, validation_ppl = false;  // in TensorBoard
    i64 timing_level = 0;  // --timing-log-level; from 1 on the log has the times of the phases
    std::string codecarbon_dir;
    double codecarbon_intensity = 475;           // g of CO2 equivalent per kWh; mean of the world
    std::string codecarbon_country;              // ISO 3166-1 alpha-3
    std::optional<double> codecarbon_cpu_power;  // W of a host's processors without RAPL
};

const Fields<LoggingFlags>& logging_fields();

}  // namespace lm::config
