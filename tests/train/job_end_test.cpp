// SPDX-License-Identifier: Apache-2.0
#include "train/loop/job_end.hpp"

#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <thread>

#include "support/catch.hpp"

using namespace lm;
using namespace lm::train;

TEST_CASE("the end of a Slurm job comes from its environment, else from scontrol") {
    std::map<std::string, std::string> environment;
    const auto get = [&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
    };
    const auto scontrol = [](const std::string& id) {
        return "JobId=" + id + " StartTime=2026-01-31T10:00:00 EndTime=2026-01-31T12:00:00 Nodes=2";
    };
    CHECK_FALSE(job_end(get, scontrol));
    environment["SLURM_JOB_ID"] = "17";
    std::tm noon{};
    noon.tm_year = 126;
    noon.tm_mday = 31;
    noon.tm_hour = 12;
    noon.tm_isdst = -1;
    REQUIRE(job_end(get, scontrol));
    CHECK(job_end(get, scontrol)->unix_s == static_cast<double>(std::mktime(&noon)));
    CHECK(job_end(get, scontrol)->source == "scontrol");
    CHECK_FALSE(job_end(get, [](const auto&) { return "JobId=17 EndTime=Unknown Nodes=2"; }));
    CHECK_FALSE(job_end(get, [](const auto&) { return ""; }));
    environment["SLURM_JOB_END_TIME"] = "1769860800";
    CHECK(job_end(get, scontrol)->unix_s == 1769860800);
    CHECK(job_end(get, scontrol)->source == "SLURM_JOB_END_TIME");
    environment["SLURM_JOB_END_TIME"] = "soon";
    CHECK(job_end(get, scontrol)->source == "scontrol");
}

TEST_CASE("the end of the job is followed while it runs") {
    // The batch system answers twice, does not answer, and then states another end.
    std::atomic<int> n_asked = 0;
    const auto ask = [&]() -> std::optional<double> {
        const int n = n_asked++;
        if (n == 2) return {};
        return n < 2 ? 1e9 : 2e9;
    };
    {
        const JobEndWatch watch(1e9 + 1, ask, 0.001);
        for (int i = 0; i < 10'000 && n_asked < 5; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        REQUIRE(n_asked >= 5);
        CHECK(watch.unix_s() == 2e9);
    }
    const int n = n_asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(n_asked == n);  // the thread has ended
    CHECK(JobEndWatch(0, {}).unix_s() == 0);
}
