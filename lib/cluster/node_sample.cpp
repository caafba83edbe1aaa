// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_sample.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/machine.hpp"
#include "base/threads.hpp"
#include "cluster/limits.hpp"
#include "cluster/shared_memory.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::cluster {
namespace {

constexpr double measure_s = 0.1;        // duration of each of two measurements: matrix product,
                                         // memory copy
constexpr double directory_limit_s = 3;  // a longer time is a problem

// Returns VALUE from the line "NAME: VALUE kB" of /proc/meminfo; 0 when the file has no such line.
i64 meminfo(const std::string& name) {
    return keyed_number("/proc/meminfo", name + ":").value_or(0);
}

std::optional<i64> soft_limit(__rlimit_resource resource) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
    return static_cast<i64>(limit.rlim_cur);
}

// Returns the clock of the fastest core in MHz; 0: not known.
double fastest_core_mhz() {
    std::istringstream lines(io::read_file("/proc/cpuinfo"));
    double fastest = 0;
    for (std::string line; std::getline(lines, line);) {
        const size_t colon = line.find(':');
        if (!line.starts_with("cpu MHz") || colon == std::string::npos) continue;
        fastest = std::max(fastest, std::strtod(line.c_str() + colon + 1, nullptr));
    }
    return fastest;
}

// Returns the speed of a product of two matrices of 128 x 128 on one core, in 1e9 operations/s.
double measure_product() {
    constexpr size_t n = 128;
    std::vector<float> a(n * n, 1.0F), b(n * n, 0.5F), c(n * n);
    i64 n_products = 0;
    const Stopwatch watch;
    do {
        for (size_t i = 0; i < n; ++i) {
            for (size_t k = 0; k < n; ++k) {
                for (size_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
            }
        }
        // Makes the next product depend on this product, so that the compiler cannot remove it.
        a[static_cast<size_t>(n_products) % a.size()] = c[0] * 1e-9F;
        ++n_products;
    } while (watch.elapsed_s() < measure_s);
    return 2e-9 * n * n * n * static_cast<double>(n_products) / watch.elapsed_s();
}

// Returns the speed of copies of 64 MiB on one core, in 1e9 bytes/s. Counts the bytes read and the
// bytes written.
double measure_copy() {
    constexpr size_t n = size_t{64} << 20;
    std::vector<char> from(n, 'a'), to(n, 'b');
    i64 n_copies = 0;
    const Stopwatch watch;
    do {
        std::memcpy(to.data(), from.data(), n);
        from[static_cast<size_t>(n_copies++)] = to[n / 2];  // the compiler must keep the copy
    } while (watch.elapsed_s() < measure_s);
    return 2e-9 * static_cast<double>(n) * static_cast<double>(n_copies) / watch.elapsed_s();
}

// Writes 1 MiB to a file, reads it back and compares it. The file name contains host and pid.
void try_file(const std::string& directory) {
    const std::string path =
        fmt::format("{}/.lm-node-check.{}.{}", directory, host_name(), getpid());
    std::string content(size_t{1} << 20, 0);
    for (size_t i = 0; i < content.size(); ++i) {
        content[i] = static_cast<char>((i * 2654435761U) >> 13);
    }
    io::write_file(path, content, io::Overwrite::yes);
    const bool same = io::read_file(path) == content;
    io::remove_tree(path);
    if (!same)
        run_error(path,
                  "the file was written, but other bytes were read back: examine the storage");
}

DirectorySample measure_directory(const std::string& path) {
    DirectorySample sample{.path = path};
    const Stopwatch watch;
    try {
        const io::FilesystemUse use = io::filesystem_use(path);
        sample.available = use.available;
        sample.inode_use = use.inode_use();
        try_file(path);
    } catch (const std::exception& error) {
        sample.problem = error.what();
        sample.refused = true;
    }
    sample.seconds = watch.elapsed_s();
    return sample;
}

// The sample of a directory. If the file system hangs, the sample arrives late or never.
struct Answer {
    std::mutex mutex;
    std::condition_variable arrived;
    std::optional<DirectorySample> sample;
};

// Returns the sample in `answer`. If no sample arrives before `deadline`, returns a sample whose
// `problem` states the timeout.
DirectorySample answer_until(Answer& answer, const std::string& path,
                             std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(answer.mutex);
    if (answer.arrived.wait_until(lock, deadline, [&] { return answer.sample.has_value(); })) {
        return *answer.sample;
    }
    return {.path = path,
            .problem = fmt::format("{}: no answer within {:.0f} s: examine the storage", path,
                                   directory_limit_s),
            .seconds = directory_limit_s};
}

// Measures the directories at the same time. A call that a dead file system blocks cannot be ended,
// so each directory has a thread of its own, which may outlive this function.
std::vector<DirectorySample> measure_directories(const std::vector<std::string>& paths) {
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::milliseconds(static_cast<i64>(1e3 * directory_limit_s));
    std::vector<std::shared_ptr<Answer>> answers;
    for (const std::string& path : paths) {
        answers.push_back(std::make_shared<Answer>());
        start_thread([path, answer = answers.back()] {
            DirectorySample sample = measure_directory(path);
            const std::lock_guard lock(answer->mutex);
            answer->sample = std::move(sample);
            answer->arrived.notify_one();
        }).detach();
    }
    std::vector<DirectorySample> samples;
    for (size_t i = 0; i < paths.size(); ++i) {
        samples.push_back(answer_until(*answers[i], paths[i], deadline));
    }
    return samples;
}

std::vector<GpuSample> sample_gpus(const std::string& library) {
    std::vector<GpuSample> gpus;
    const std::optional<Nvml> nvml = Nvml::open(library);
    if (!nvml) return gpus;
    for (i64 i = 0; i < nvml->n_gpus(); ++i) gpus.push_back({nvml->name(i), nvml->read(i)});
    return gpus;
}

constexpr std::tuple sensor_fields{
    std::pair{"temperature_c", &GpuSensors::temperature_c},
    std::pair{"uncorrected_ecc_errors", &GpuSensors::uncorrected_ecc_errors},
    std::pair{"sm_mhz", &GpuSensors::sm_mhz}, std::pair{"max_sm_mhz", &GpuSensors::max_sm_mhz},
    std::pair{"power_w", &GpuSensors::power_w}};
constexpr std::tuple directory_fields{std::pair{"path", &DirectorySample::path},
                                      std::pair{"problem", &DirectorySample::problem},
                                      std::pair{"available", &DirectorySample::available},
                                      std::pair{"inode_use", &DirectorySample::inode_use},
                                      std::pair{"seconds", &DirectorySample::seconds}};
constexpr std::tuple node_fields{std::pair{"host", &NodeSample::host},
                                 std::pair{"clock_skew_s", &NodeSample::clock_skew_s},
                                 std::pair{"memory", &NodeSample::memory},
                                 std::pair{"available", &NodeSample::available},
                                 std::pair{"swap_used", &NodeSample::swap_used},
                                 std::pair{"huge_pages_free", &NodeSample::huge_pages_free},
                                 std::pair{"open_files", &NodeSample::open_files},
                                 std::pair{"locked_memory", &NodeSample::locked_memory},
                                 std::pair{"cpu_mhz", &NodeSample::cpu_mhz},
                                 std::pair{"gflops", &NodeSample::gflops},
                                 std::pair{"copy_gbps", &NodeSample::copy_gbps},
                                 std::pair{"network_gbps", &NodeSample::network_gbps}};

}  // namespace

NodeSample sample_node(const std::vector<std::string>& directories, const std::string& nvml) {
    constexpr i64 kib = 1024;
    NodeSample sample;
    sample.host = host_name();
    sample.memory = meminfo("MemTotal") * kib;
    const std::optional<MemoryRoom> room = memory_room();
    sample.available = room ? room->bytes : 0;
    sample.swap_used = (meminfo("SwapTotal") - meminfo("SwapFree")) * kib;
    sample.huge_pages_free = meminfo("HugePages_Free");
    sample.open_files = soft_limit(RLIMIT_NOFILE);
    sample.locked_memory = soft_limit(RLIMIT_MEMLOCK);
    sample.gflops = measure_product();
    sample.cpu_mhz = fastest_core_mhz();  // before the clock falls to its idle value
    sample.copy_gbps = measure_copy();
    sample.directories = measure_directories(directories);
    sample.gpus = sample_gpus(nvml);
    return sample;
}

io::OrderedJson to_json(const NodeSample& sample) {
    io::OrderedJson json{{"kind", "node"}};
    json.update(io::object_of(sample, node_fields));
    json["directories"] = io::OrderedJson::array();
    for (const DirectorySample& directory : sample.directories) {
        json["directories"].push_back(io::object_of(directory, directory_fields));
    }
    json["gpus"] = io::OrderedJson::array();
    for (const GpuSample& gpu : sample.gpus) {
        io::OrderedJson& object = json["gpus"].emplace_back(io::OrderedJson{{"name", gpu.name}});
        object.update(io::object_of(gpu.sensors, sensor_fields));
        object["tflops"] = gpu.tflops;
    }
    return json;
}

NodeSample node_sample_from_json(const io::Json& json, const std::string& source) {
    NodeSample sample;
    io::read_object(sample, json, node_fields, source);
    for (const io::Json& directory :
         io::json_get<std::vector<io::Json>>(json, "directories", source)) {
        io::read_object(sample.directories.emplace_back(), directory, directory_fields, source);
    }
    for (const io::Json& object : io::json_get<std::vector<io::Json>>(json, "gpus", source)) {
        GpuSample& gpu = sample.gpus.emplace_back();
        gpu.name = io::json_get<std::string>(object, "name", source);
        gpu.tflops = io::json_get<double>(object, "tflops", source);
        io::read_object(gpu.sensors, object, sensor_fields, source);
    }
    return sample;
}

}  // namespace lm::cluster
