// SPDX-License-Identifier: Apache-2.0
// Where the ranks meet, from the variables of torchrun-like launchers and of Slurm.
#include <charconv>
#include <cstring>

#include "base/error.hpp"
#include "comm/rendezvous.hpp"

namespace lm::comm {
namespace {

// Ports for jobs lie below those that the system hands out by itself (32768 and above).
constexpr i64 first_job_port = 20000;
constexpr i64 n_job_ports = 12000;

std::string text_of(const Environment& get, const char* name) {
    const char* value = get(name);
    if (value == nullptr || *value == 0)
        usage_error(name, "is not set, but the ranks need it to meet");
    return value;
}

i64 number_of(const Environment& get, const char* name, i64 low, i64 high) {
    const std::string text = text_of(get, name);
    i64 value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
        usage_error(name, "'{}' is not a number from {} to {}", text, low, high);
    }
    return value;
}

constexpr i64 max_ranks = 1 << 24;

void read_ranks(Meeting& meeting, const Environment& get, const char* rank, const char* size) {
    meeting.size = static_cast<int>(number_of(get, size, 1, max_ranks));
    meeting.rank = static_cast<int>(number_of(get, rank, 0, meeting.size - 1));
}

Meeting meeting_of_slurm(const Environment& get) {
    Meeting meeting;
    const bool step = get("SLURM_STEP_NUM_TASKS") != nullptr;
    read_ranks(meeting, get, "SLURM_PROCID", step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
    const bool step_nodes = get("SLURM_STEP_NODELIST") != nullptr;
    meeting.host =
        first_host(text_of(get, step_nodes ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST"));
    const i64 job = number_of(get, "SLURM_JOB_ID", 0, INT64_MAX / 64);
    const i64 step_id = get("SLURM_STEP_ID") ? number_of(get, "SLURM_STEP_ID", 0, UINT32_MAX) : 0;
    meeting.port = static_cast<int>(first_job_port + (job * 16 + step_id) % n_job_ports);
    meeting.token = fmt::format("slurm {}.{}", job, step_id);
    return meeting;
}

}  // namespace

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

std::optional<Meeting> meeting_of(const Environment& get) {
    Meeting meeting;
    if (get("RANK") || get("WORLD_SIZE")) {
        read_ranks(meeting, get, "RANK", "WORLD_SIZE");
        meeting.host = text_of(get, "MASTER_ADDR");
        meeting.port = static_cast<int>(number_of(get, "MASTER_PORT", 1, 65535));
        meeting.token = fmt::format("{} ranks at port {}", meeting.size, meeting.port);
    } else if (get("SLURM_PROCID")) {
        meeting = meeting_of_slurm(get);
        if (get("MASTER_ADDR")) meeting.host = text_of(get, "MASTER_ADDR");
        if (get("MASTER_PORT")) {
            meeting.port = static_cast<int>(number_of(get, "MASTER_PORT", 1, 65535));
        }
    } else {
        return std::nullopt;
    }
    if (const char* token = get("LM_RENDEZVOUS_TOKEN")) meeting.token = token;
    return meeting;
}

}  // namespace lm::comm
