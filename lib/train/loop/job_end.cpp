// SPDX-License-Identifier: Apache-2.0
#include "train/loop/job_end.hpp"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "base/units.hpp"
#include "io/program.hpp"
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
    try {
        return io::run_program({"sh", "-c", command}).output;
    } catch (const Error&) {
        return {};
    }
}

// Returns SLURM_JOB_ID; empty outside of a Slurm job.
std::string job_id(const std::function<const char*(const char*)>& get) {
    const char* const id = get("SLURM_JOB_ID");
    return id != nullptr && parse_seconds(id) ? id : "";
}

// The end of the job counts as unchanged if it differs by at most this number of seconds.
constexpr double same_end_s = 2;

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
    const std::string id = job_id(get);
    if (id.empty()) return {};
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
            note("{}: ignored: it states that the job ended {} ago", found->source,
                 human_duration(unix_time_s() - found->unix_s));
        }
    }
    world.broadcast({&end.unix_s, DType::fp64, {1}}, 0);
    end.source = parallel::broadcast_text(world, end.source);
    if (end.unix_s == 0) return {};
    return end;
}

// ---- changes of the end -----------------------------------------------------------------------

JobEndWatch::JobEndWatch(double unix_s, Ask ask, double every_s)
    : unix_s_(unix_s), ask_(std::move(ask)), every_s_(every_s) {
    if (ask_) thread_ = start_thread([this] { follow(); });
}

JobEndWatch::~JobEndWatch() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        ended_ = true;
    }
    end_.notify_one();
    thread_.join();
}

void JobEndWatch::follow() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
        lock.unlock();
        const std::optional<double> end = ask_();
        lock.lock();
        if (end && !ended_ && std::abs(*end - unix_s_) > same_end_s) {
            unix_s_ = *end;
            note("scontrol: the end of the job is now {}", iso_time(static_cast<i64>(*end)));
        }
        end_.wait_for(lock, std::chrono::duration<double>(every_s_), [this] { return ended_; });
    }
}

JobEndWatch::Ask ask_scontrol() {
    const std::string id = job_id([](const char* name) { return std::getenv(name); });
    if (id.empty()) return {};
    return [id] { return parse_end_time(run_scontrol(id)); };
}

}  // namespace lm::train
