// SPDX-License-Identifier: Apache-2.0
// emissions.csv of CodeCarbon 3: one row for each run of a program, with the columns of
// CodeCarbon's class EmissionsData (codecarbon/output_methods/emissions_data.py, 3.3.2).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::metrics {

// The values of a row that differ between runs. The columns without a member here are empty or
// constant.
struct EmissionsRow {
    double unix_time_s = 0;
    std::string run_id;
    std::string experiment_id;
    double duration_s = 0;
    double cpu_j = 0, gpu_j = 0, ram_j = 0;
    double intensity_g = 0;  // grams of CO2 equivalent for each kWh
    std::string country_code;
    std::string os;
    i64 n_cpus = 0;
    std::string cpu_model;
    i64 n_gpus = 0;
    std::string gpu_model;
    double ram_bytes = 0, ram_used_bytes = 0;
    double cpu_utilization = 0;  // mean over the run, from 0 to 1
};

// Return a line of CSV without a newline: the column names, or the values of a row.
std::string emissions_header();
std::string to_csv(const EmissionsRow& row);

// A file with one row for each run.
class EmissionsFile {
  public:
    // Throws Error(usage) when the file exists and has other columns.
    static EmissionsFile open(std::string path);
    // Replaces the row of this run, or adds it. Reads the file again each time, because another
    // run, for example a superseded one, may also write to it; the rows of other runs stay. An
    // error does not stop the training. Only the first of consecutive errors is logged, as a
    // warning.
    void write(const EmissionsRow& row);
    const std::string& path() const { return path_; }

  private:
    explicit EmissionsFile(std::string path) : path_(std::move(path)) {}
    std::string path_;
    bool failed_ = false;
};

// The sums over all runs in the emissions files of a directory.
struct EmissionsSum {
    i64 n_files = 0, n_runs = 0;
    double duration_s = 0;  // sum over all runs of all hosts
    double energy_kwh = 0;
    double cpu_kwh = 0, gpu_kwh = 0, ram_kwh = 0;
    double emissions_kg = 0;
};

// Adds up all files emissions*.csv of a directory, including files of CodeCarbon. A row has the
// totals of its run so far, so if several rows of a file have the same run id, only the last of
// them counts. Throws Error(failure) naming a file that is not an emissions file.
EmissionsSum sum_emissions(const std::string& directory);

}  // namespace lm::metrics
