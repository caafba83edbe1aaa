// SPDX-License-Identifier: Apache-2.0
#include "metrics/emissions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"

namespace lm::metrics {
namespace {

constexpr double joules_of_kwh = 3.6e6;

constexpr std::string_view columns[] = {"timestamp",
                                        "project_name",
                                        "run_id",
                                        "experiment_id",
                                        "duration",
                                        "emissions",
                                        "emissions_rate",
                                        "cpu_power",
                                        "gpu_power",
                                        "ram_power",
                                        "cpu_energy",
                                        "gpu_energy",
                                        "ram_energy",
                                        "energy_consumed",
                                        "water_consumed",
                                        "country_name",
                                        "country_iso_code",
                                        "region",
                                        "cloud_provider",
                                        "cloud_region",
                                        "os",
                                        "python_version",
                                        "codecarbon_version",
                                        "cpu_count",
                                        "cpu_model",
                                        "gpu_count",
                                        "gpu_model",
                                        "longitude",
                                        "latitude",
                                        "ram_total_size",
                                        "tracking_mode",
                                        "cpu_utilization_percent",
                                        "gpu_utilization_percent",
                                        "ram_utilization_percent",
                                        "ram_used_gb",
                                        "on_cloud",
                                        "pue",
                                        "wue"};

// Returns `text` as a field of CSV (RFC 4180): with quotes around it if it has a comma, a quote or
// a line end.
std::string csv_quoted(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
    std::string field = "\"";
    for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
    return field + "\"";
}

std::vector<std::string> fields_of(std::string_view line) {
    std::vector<std::string> fields(1);
    bool inside = false;  // within quotes
    for (size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (c == '"' && inside && i + 1 < line.size() && line[i + 1] == '"') {
            fields.back() += line[++i];
        } else if (c == '"') {
            inside = !inside;
        } else if (c == ',' && !inside) {
            fields.emplace_back();
        } else if (c != '\r') {
            fields.back() += c;
        }
    }
    return fields;
}

double share(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

// Adds the columns of power, energy and emissions.
void add_energy(std::map<std::string_view, std::string>& row, const EmissionsRow& from) {
    const auto add = [&row](std::string_view column, double value) {
        row[column] = fmt::format("{}", value);
    };
    const double kwh = (from.cpu_j + from.gpu_j + from.ram_j) / joules_of_kwh;
    const double kg = kwh * from.intensity_g / 1e3;
    add("duration", from.duration_s);
    add("emissions", kg);
    add("emissions_rate", share(kg, from.duration_s));
    add("cpu_power", share(from.cpu_j, from.duration_s));
    add("gpu_power", share(from.gpu_j, from.duration_s));
    add("ram_power", share(from.ram_j, from.duration_s));
    add("cpu_energy", from.cpu_j / joules_of_kwh);
    add("gpu_energy", from.gpu_j / joules_of_kwh);
    add("ram_energy", from.ram_j / joules_of_kwh);
    add("energy_consumed", kwh);
    add("water_consumed", 0);
}

}  // namespace

std::string emissions_header() {
    return fmt::format("{}", fmt::join(columns, ","));
}

std::string to_csv(const EmissionsRow& from) {
    std::map<std::string_view, std::string> row;
    row["timestamp"] = iso_time(static_cast<i64>(from.unix_time_s)).substr(0, 19);
    row["project_name"] = "lm-train";
    row["run_id"] = from.run_id;
    row["experiment_id"] = from.experiment_id;
    add_energy(row, from);
    row["country_name"] = row["country_iso_code"] = from.country_code;
    row["os"] = from.os;
    row["codecarbon_version"] = fmt::format("lm-utils {}", version());
    row["cpu_count"] = fmt::format("{}", from.n_cpus);
    row["cpu_model"] = from.cpu_model;
    if (from.n_gpus > 0) {
        row["gpu_count"] = fmt::format("{}", from.n_gpus);
        row["gpu_model"] = fmt::format("{} x {}", from.n_gpus, from.gpu_model);
    }
    row["ram_total_size"] = fmt::format("{}", from.ram_bytes / 0x1p30);
    row["tracking_mode"] = "machine";
    row["cpu_utilization_percent"] = fmt::format("{}", 100 * from.cpu_utilization);
    row["ram_utilization_percent"] =
        fmt::format("{}", 100 * share(from.ram_used_bytes, from.ram_bytes));
    row["ram_used_gb"] = fmt::format("{}", from.ram_used_bytes / 0x1p30);
    row["on_cloud"] = "N";
    row["pue"] = "1";
    row["wue"] = "0";
    std::vector<std::string> fields;
    for (const std::string_view column : columns) fields.push_back(csv_quoted(row[column]));
    return fmt::format("{}", fmt::join(fields, ","));
}

namespace {

// Returns the header, and the rows of the file whose run id is not `run_id`. Returns only the
// header when the file does not exist. Throws Error(usage) when the file has other columns.
std::string other_rows(const std::string& path, std::string_view run_id) {
    const std::string text = io::exists(path) ? io::read_file(path) : "";
    const auto names = fields_of(emissions_header());
    const auto id = std::ranges::find(names, "run_id") - names.begin();
    std::string kept;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
        const std::string line = text.substr(begin, end - begin);
        const auto fields = fields_of(line.substr(0, line.find_first_of("\r\n")));
        if (begin == 0 && fields != names) {
            usage_error(path,
                        "does not have the columns of CodeCarbon 3: remove the file, or name "
                        "another directory with --codecarbon-dir");
        }
        const bool is_own = std::ssize(fields) > id && fields[static_cast<size_t>(id)] == run_id;
        if (!is_own) kept += line.ends_with('\n') ? line : line + '\n';
        begin = end;
    }
    return kept.empty() ? emissions_header() + "\n" : kept;
}

}  // namespace

EmissionsFile EmissionsFile::open(std::string path) {
    (void)other_rows(path, "");
    return EmissionsFile(std::move(path));
}

void EmissionsFile::write(const EmissionsRow& row) {
    try {
        io::write_file(path_, other_rows(path_, row.run_id) + to_csv(row) + "\n",
                       io::Overwrite::yes);
        failed_ = false;
    } catch (const Error& error) {
        if (!failed_) warn("{}: the energy of this run is not recorded in this file", error.what());
        failed_ = true;
    }
}

namespace {

// A row: maps the name of a column to the row's field in that column.
using Row = std::map<std::string, std::string, std::less<>>;
// Returns for each run id the last row in the file that has this id.
std::map<std::string, Row> rows_of(const std::string& path) {
    std::istringstream lines(io::read_file(path));
    std::string line;
    std::getline(lines, line);
    const std::vector<std::string> names = fields_of(line);
    for (const char* needed : {"run_id", "duration", "energy_consumed", "emissions"}) {
        if (std::ranges::find(names, needed) != names.end()) continue;
        run_error(path, "has no column {}: it is not an emissions file of CodeCarbon", needed);
    }
    std::map<std::string, Row> rows;
    while (std::getline(lines, line)) {
        const std::vector<std::string> fields = fields_of(line);
        if (fields.size() != names.size()) continue;  // a line that a full disk truncated
        Row row;
        for (size_t i = 0; i < names.size(); ++i) row[names[i]] = fields[i];
        rows[row["run_id"]] = std::move(row);
    }
    return rows;
}

double number_in(const Row& row, std::string_view column) {
    const auto at = row.find(column);
    double value = 0;
    if (at == row.end()) return 0;
    std::from_chars(at->second.data(), at->second.data() + at->second.size(), value);
    return value;
}

}  // namespace

EmissionsSum sum_emissions(const std::string& directory) {
    EmissionsSum sum;
    for (const std::string& name : io::list_directory(directory)) {
        if (!name.starts_with("emissions") || !name.ends_with(".csv")) continue;
        ++sum.n_files;
        for (const auto& [run_id, row] : rows_of(directory + "/" + name)) {
            ++sum.n_runs;
            sum.duration_s += number_in(row, "duration");
            sum.energy_kwh += number_in(row, "energy_consumed");
            sum.cpu_kwh += number_in(row, "cpu_energy");
            sum.gpu_kwh += number_in(row, "gpu_energy");
            sum.ram_kwh += number_in(row, "ram_energy");
            sum.emissions_kg += number_in(row, "emissions");
        }
    }
    return sum;
}

}  // namespace lm::metrics
