// SPDX-License-Identifier: Apache-2.0
#include "train/loop/job_end.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "parallel/together.hpp"

namespace lm::train {
namespace {

std::optional<double> parse_seconds(std::string_view text) {
    i64 seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc() || end != text.data() + text.size() || seconds <= 0) return {};
    return static_cast<double>(seconds);
}

// Returns the output of scontrol; an empty text when it is not installed, fails or takes longer
// than 5 s.
std::string run_scontrol(const std::string& id) {
    const std::string command = "timeout 5 scontrol --oneliner show job " + id + " 2>/dev/null";
    // NOLINTNEXTLINE(cert-env33-c): `id` has digits only
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
    std::string text;
    std::array<char, 4096> part{};
    while (pipe && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
    return text;
}

}  // namespace

std::optional<double> parse_end_time(std::string_view text) {
    constexpr std::string_view key = " EndTime=";
    const size_t at = text.find(key);
    if (at == text.npos) return {};
    const std::string stamp(text.substr(at + key.size(), 19));
    std::tm local{};
    const char* const end = ::strptime(stamp.c_str(), "%Y-%m-%dT%H:%M:%S", &local);
    if (end == nullptr || *end != '\0') return {};
    local.tm_isdst = -1;
    return static_cast<double>(std::mktime(&local));
}

std::optional<JobEnd> job_end(const std::function<const char*(const char*)>& get,
                              const std::function<std::string(const std::string& id)>& scontrol) {
    if (const char* const text = get("SLURM_JOB_END_TIME")) {
        if (const auto end = parse_seconds(text)) return JobEnd{*end, "SLURM_JOB_END_TIME"};
    }
    const char* const id = get("SLURM_JOB_ID");
    if (id == nullptr || !parse_seconds(id)) return {};
    if (const auto end = parse_end_time(scontrol(id))) return JobEnd{*end, "scontrol"};
    return {};
}

std::optional<JobEnd> job_end_together(comm::Group& world) {
    JobEnd end;
    if (world.rank() == 0) {
        const auto found =
            job_end([](const char* name) { return std::getenv(name); }, run_scontrol);
        if (found && found->unix_s > unix_time_s()) {
            end = *found;
        } else if (found) {
            note("{}: ignored: the job would have ended {} ago", found->source,
                 human_duration(unix_time_s() - found->unix_s));
        }
    }
    world.broadcast({&end.unix_s, DType::fp64, {1}}, 0);
    end.source = parallel::broadcast_text(world, end.source);
    if (end.unix_s == 0) return {};
    return end;
}

}  // namespace lm::train
