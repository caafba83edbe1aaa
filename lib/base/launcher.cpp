// SPDX-License-Identifier: Apache-2.0
#include "base/launcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.hpp"
#include "base/hash.hpp"

namespace lm {
namespace {

struct Variables {
    Launcher launcher;
    const char* rank;
    const char* size;
    const char* also;  // a variable that must be set too; nullptr: none
};

// Slurm sets SLURM_PROCID in a batch script too; only srun sets the variables of a step.
constexpr const char* slurm_step_size = "SLURM_STEP_NUM_TASKS";
constexpr std::array<Variables, 5> launchers = {{
    {Launcher::open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr},
    {Launcher::pmi, "PMI_RANK", "PMI_SIZE", nullptr},
    {Launcher::pmix, "PMIX_RANK", nullptr, nullptr},
    {Launcher::torchrun, "RANK", "WORLD_SIZE", nullptr},
    {Launcher::slurm, "SLURM_PROCID", slurm_step_size, "SLURM_STEP_ID"},
}};

constexpr i64 max_ranks = 1 << 24;
constexpr i64 max_port = 65535;
// The ports of jobs are below 32768, where the ephemeral ports of Linux begin.
constexpr i64 first_job_port = 20000;
constexpr i64 n_job_ports = 12000;

std::string_view text_of(const Environment& get, const char* name) {
    const char* value = get(name);
    return value == nullptr ? "" : value;
}

bool is_set(const Environment& get, const char* name) {
    return !text_of(get, name).empty();
}

std::string required_text(const Environment& get, const char* name) {
    if (!is_set(get, name))
        usage_error(name,
                    "is not set, but the ranks need it to connect: set it, or start the ranks with "
                    "torchrun or srun");
    return std::string(text_of(get, name));
}

i64 number_of(const Environment& get, const char* name, i64 low, i64 high) {
    const std::string text = required_text(get, name);
    i64 value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
        usage_error(name, "'{}' in the environment is not a number from {} to {}", text, low, high);
    }
    return value;
}

int size_of(const Environment& get, const char* name) {
    return static_cast<int>(number_of(get, name, 1, max_ranks));
}

int port_of(const Environment& get) {
    return static_cast<int>(number_of(get, "MASTER_PORT", 1, max_port));
}

bool is_launched_by(const Variables& variables, const Environment& get) {
    for (const char* name : {variables.rank, variables.size, variables.also}) {
        if (name != nullptr && !is_set(get, name)) return false;
    }
    return true;
}

Launched read_launched(const Variables& variables, const Environment& get) {
    Launched launched{.by = variables.launcher};
    launched.in_slurm_step = is_set(get, slurm_step_size);
    const char* size = variables.size;
    if (size == nullptr && launched.in_slurm_step) size = slurm_step_size;
    launched.size = size == nullptr ? 0 : size_of(get, size);
    const i64 end = size == nullptr ? max_ranks : launched.size;
    launched.rank = static_cast<int>(number_of(get, variables.rank, 0, end - 1));
    return launched;
}

MeetingPoint meeting_point_of_slurm(const Environment& get) {
    const char* nodes =
        is_set(get, "SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
    const i64 job = number_of(get, "SLURM_JOB_ID", 0, INT64_MAX / 64);
    const i64 step = number_of(get, "SLURM_STEP_ID", 0, UINT32_MAX);
    return {
        .host = is_set(get, "MASTER_ADDR") ? required_text(get, "MASTER_ADDR")
                                           : first_host(required_text(get, nodes)),
        .port = is_set(get, "MASTER_PORT")
                    ? port_of(get)
                    : static_cast<int>(first_job_port + (job * 16 + step) % n_job_ports),
        .token = {},
        .start = fmt::format("slurm {}.{}.{}", job, step, text_of(get, "SLURM_RESTART_COUNT")),
    };
}

MeetingPoint meeting_point_of_torchrun(const Launched& launched, const Environment& get) {
    MeetingPoint point{.host = required_text(get, "MASTER_ADDR"), .port = port_of(get)};
    // Without TORCHELASTIC_RESTART_COUNT: after a restart its value may differ between the nodes.
    point.start =
        fmt::format("{} ranks, run {}", launched.size, text_of(get, "TORCHELASTIC_RUN_ID"));
    point.agent_store = text_of(get, "TORCHELASTIC_USE_AGENT_STORE") == "True";
    return point;
}

}  // namespace

const char* environment_of_process(const char* name) {
    return std::getenv(name);
}

Launched launched_by(std::initializer_list<Launcher> among, const Environment& get) {
    for (const Launcher launcher : among) {
        const auto variables = std::ranges::find(launchers, launcher, &Variables::launcher);
        LM_CHECK(variables != launchers.end(), "expected variables of the launcher {}, got none",
                 static_cast<int>(launcher));
        if (is_launched_by(*variables, get)) return read_launched(*variables, get);
    }
    return {};
}

std::optional<i64> rank_on_host(const Environment& get) {
    for (const char* name :
         {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK", "SLURM_LOCALID"}) {
        if (is_set(get, name)) return number_of(get, name, 0, max_ranks);
    }
    return std::nullopt;
}

std::string slurm_job(const Environment& get) {
    return std::string(text_of(get, "SLURM_JOB_ID"));
}

MeetingPoint meeting_point(const Launched& launched, const Environment& get) {
    MeetingPoint point = launched.by == Launcher::slurm ? meeting_point_of_slurm(get)
                                                        : meeting_point_of_torchrun(launched, get);
    point.token = text_of(get, "LM_RENDEZVOUS_TOKEN");
    return point;
}

std::string first_host(const std::string& node_list) {
    std::string host;
    for (size_t i = 0; i < node_list.size() && node_list[i] != ','; ++i) {
        if (node_list[i] != '[') {
            host += node_list[i];
            continue;
        }
        const size_t end = node_list.find(']', i);
        if (end == std::string::npos) break;
        const std::string range = node_list.substr(i + 1, end - i - 1);
        host += range.substr(0, range.find_first_of("-,"));
        i = end;
    }
    return host;
}

}  // namespace lm
