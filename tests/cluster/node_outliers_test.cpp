// SPDX-License-Identifier: Apache-2.0
// The node check: outliers among the samples of hosts, and the JSON of a sample.

#include "cluster/node_outliers.hpp"

#include <chrono>
#include <thread>

#include "base/host_list.hpp"
#include "io/fault.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::cluster;

namespace {

std::vector<NodeSample> equal_nodes(int n) {
    std::vector<NodeSample> samples;
    for (int i = 1; i <= n; ++i) {
        samples.push_back(
            {.host = "n" + std::to_string(i),
             .memory = i64{512} << 30,
             .available = i64{500} << 30,
             .open_files = 1048576,
             .cpu_mhz = 3000,
             .gflops = 20.0 + 0.1 * i,
             .copy_gbps = 10.0 - 0.1 * i,
             .network_gbps = 5,
             .directories = {{.path = "/scratch", .available = i64{9} << 40, .seconds = 0.02}}});
    }
    return samples;
}

// Returns the text of the only finding, "HOST: TEXT".
std::string only_finding(const std::vector<NodeSample>& samples) {
    const std::vector<NodeFinding> findings = find_outliers(samples);
    REQUIRE(findings.size() == 1);
    return findings[0].host + ": " + findings[0].text;
}

}  // namespace

TEST_CASE("hosts that are alike have no outliers, one slow or odd host is named") {
    const std::vector<NodeSample> alike = equal_nodes(8);
    CHECK(find_outliers(alike).empty());
    CHECK(find_outliers({}).empty());
    std::vector<NodeSample> samples = alike;
    samples[4].gflops = 12;
    CHECK(only_finding(samples) == "n5: matrix product 12 GFLOP/s, median 20.4 GFLOP/s");
    samples = alike;
    samples[2].copy_gbps = 4.294967296;  // 4 GiB/s
    CHECK_THAT(only_finding(samples), StartsWith("n3: memory copy 4 GiB/s, median "));
    samples = alike;
    samples[0].cpu_mhz = 1200;
    CHECK_THAT(only_finding(samples), StartsWith("n1: core clock 1200 MHz"));
    samples = alike;
    samples[7].network_gbps = 0.536870912;  // 0.5 GiB/s
    CHECK_THAT(only_finding(samples), StartsWith("n8: network 0.5 GiB/s, median 4.657 GiB/s"));
    samples = alike;
    samples[1].available = i64{100} << 30;
    CHECK_THAT(only_finding(samples), StartsWith("n2: free memory 100 GiB, median 500 GiB"));
    samples = alike;
    samples[1].open_files = 1024;
    CHECK(only_finding(samples) == "n2: limit of open files 1024, 1048576 on most hosts");
    samples = alike;
    samples[1].locked_memory = 65536;
    CHECK(only_finding(samples) == "n2: limit of locked memory 64.0 KiB, unlimited on most hosts");
}

TEST_CASE("clock, swap and directories of a host are checked against fixed bounds") {
    const std::vector<NodeSample> alike = equal_nodes(1);
    std::vector<NodeSample> samples = alike;
    samples[0].clock_skew_s = -2.5;
    CHECK(only_finding(samples) == "n1: clock -2.5 s from the median");
    samples = alike;
    samples[0].swap_used = i64{60} << 30;
    CHECK(only_finding(samples) == "n1: 60.0 GiB of swap in use");
    samples = alike;
    samples[0].directories[0].available = 5 << 20;
    CHECK(only_finding(samples) == "n1: /scratch: 5.00 MiB available");
    samples = alike;
    samples[0].directories[0].inode_use = 0.99;
    CHECK(only_finding(samples) == "n1: /scratch: 99.0 % of the inodes in use");
    samples = equal_nodes(3);
    samples[2].directories[0].seconds = 7;
    CHECK(only_finding(samples) == "n3: /scratch: 7.0 s for a file of 1 MiB, median 0.02 s");
    samples = equal_nodes(2);
    samples[0].directories[0].seconds = 1.1;
    CHECK(only_finding(samples) == "n1: /scratch: 1.1 s for a file of 1 MiB, median 0.02 s");
    samples[1].directories[0].seconds = 0.9;  // a slow file system, not a slow host
    CHECK(find_outliers(samples).empty());
}

TEST_CASE("of two hosts with different limits the one with the lower limit is named") {
    std::vector<NodeSample> samples = equal_nodes(2);
    for (const size_t low : {0, 1}) {
        samples[low].open_files = 1024;
        samples[1 - low].open_files = 65536;
        const std::string name = samples[low].host;
        CHECK(only_finding(samples) == name + ": limit of open files 1024, 65536 on 1 of 2 hosts");
        samples[1 - low].open_files.reset();
        CHECK(only_finding(samples) ==
              name + ": limit of open files 1024, unlimited on 1 of 2 hosts");
    }
}

TEST_CASE("a directory that no host has is a problem of the job, not of a host") {
    std::vector<NodeSample> samples = equal_nodes(3);
    for (NodeSample& sample : samples) sample.directories[0].problem = "/scratch: is missing";
    const std::vector<NodeFinding> findings = find_outliers(samples);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].host.empty());
    CHECK(findings[0].text == "on every host: /scratch: is missing");
    CHECK(hosts_of(findings).empty());
    samples[1].directories[0].problem.clear();
    CHECK(hosts_of(find_outliers(samples)).size() == 2);
}

TEST_CASE("free huge pages may differ, but not by more than half") {
    std::vector<NodeSample> samples = equal_nodes(3);
    for (NodeSample& sample : samples) sample.huge_pages_free = 1000;
    samples[0].huge_pages_free = 700;
    samples[2].huge_pages_free = 1300;
    CHECK(find_outliers(samples).empty());
    samples[0].huge_pages_free = 0;
    CHECK(only_finding(samples) == "n1: free huge pages 0, median 1000");
}

TEST_CASE("a directory that does not answer is a problem, after three seconds") {
    const test::TempDir scratch;
    io::fault::arm(io::fault::Action::slow, 4000);
    const NodeSample sample = sample_node({scratch / "", scratch / ""});
    io::fault::arm(io::fault::Action::none, 0);
    REQUIRE(sample.directories.size() == 2);
    CHECK_THAT(sample.directories[1].problem, ContainsSubstring("no answer within 3 s"));
    std::this_thread::sleep_for(std::chrono::seconds(2));  // the threads still use the directory
}

TEST_CASE("a GPU that is hot, slow or has ECC errors is named with its host") {
    std::vector<NodeSample> alike = equal_nodes(3);
    for (NodeSample& sample : alike) {
        GpuSample gpu{.name = "GPU", .tflops = 600};
        gpu.sensors.temperature_c = 50;
        gpu.sensors.sm_mhz = 1700;
        gpu.sensors.max_sm_mhz = 1980;
        gpu.sensors.uncorrected_ecc_errors = 0;
        sample.gpus = {gpu, gpu};
    }
    CHECK(find_outliers(alike).empty());
    const auto finding_with = [&](auto&& change) {
        std::vector<NodeSample> samples = alike;
        change(samples[1].gpus[1]);
        return only_finding(samples);
    };
    CHECK(finding_with([](GpuSample& gpu) { gpu.sensors.temperature_c = 75; }) ==
          "n2: GPU 1: 75 degrees Celsius, median 50");
    CHECK(finding_with([](GpuSample& gpu) { gpu.sensors.uncorrected_ecc_errors = 3; }) ==
          "n2: GPU 1: 3 uncorrected ECC errors");
    CHECK(finding_with([](GpuSample& gpu) { gpu.sensors.sm_mhz = 900; }) ==
          "n2: GPU 1: clock 900 MHz, median 1700 MHz");
    CHECK(finding_with([](GpuSample& gpu) { gpu.sensors.max_sm_mhz = 1200; }) ==
          "n2: GPU 1: highest clock 1200 MHz, median 1980 MHz");
    CHECK(finding_with([](GpuSample& gpu) { gpu.tflops = 500; }) ==
          "n2: GPU 1: matrix products 500 TFLOP/s, median 600 TFLOP/s");
    std::vector<NodeSample> samples = alike;
    samples[2].gpus.pop_back();
    CHECK(only_finding(samples) == "n3: GPUs 1, 2 on most hosts");
    samples = alike;
    for (NodeSample& sample : samples) {
        for (GpuSample& gpu : sample.gpus) gpu.tflops = 0;
    }
    samples[0].gpus[0].sensors.sm_mhz = 345;  // an idle GPU
    CHECK(find_outliers(samples).empty());
}

TEST_CASE("the sample has the GPUs of the driver") {
    const NodeSample sample = sample_node({}, LM_FAKE_NVML);
    REQUIRE(sample.gpus.size() == 2);
    CHECK(sample.gpus[1].name == "Fake GPU 1");
    CHECK(sample.gpus[1].sensors.temperature_c == 61);
    const std::string text = io::json_line(to_json(sample));
    const NodeSample parsed = node_sample_from_json(io::parse_json(text, "a"), "a");
    CHECK(io::json_line(to_json(parsed)) == text);
    const std::vector<NodeFinding> findings = find_outliers({parsed});
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].text == "GPU 1: 3 uncorrected ECC errors");
    CHECK(sample_node({}, "no-such-library.so").gpus.empty());
}

TEST_CASE("this host's sample is complete and equals the one parsed from its JSON") {
    const test::TempDir scratch;
    const NodeSample sample = sample_node({scratch / "", scratch / "missing"});
    CHECK(sample.memory > 0);
    CHECK(sample.available > 0);
    CHECK(sample.gflops > 0);
    CHECK(sample.copy_gbps > 0);
    REQUIRE(sample.directories.size() == 2);
    CHECK(sample.directories[0].problem.empty());
    CHECK_THAT(sample.directories[1].problem, ContainsSubstring("missing"));
    CHECK(std::filesystem::is_empty(scratch / ""));
    const std::string text = io::json_line(to_json(sample));
    CHECK(io::json_line(to_json(node_sample_from_json(io::parse_json(text, "a"), "a"))) == text);
    CHECK(find_outliers({sample}).size() >= 1);  // the missing directory
    CHECK(hosts_of({{"b", ""}, {"a", ""}, {"b", ""}}) == std::vector<std::string>{"a", "b"});
    CHECK(host_list({"n1", "n2", "n4"}) == "n[1-2,4]");
    CHECK(host_list({"n", "n1", "n2"}) == "n,n[1-2]");
}
