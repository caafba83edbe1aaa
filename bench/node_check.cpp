// SPDX-License-Identifier: Apache-2.0
// Measures the exchange of the node check in a job of N hosts: clocks, network rounds, and the
// gathering of the samples on member 0. Threads of this process play the hosts; the time that the
// exchange would take on a cluster is computed for virtual links (comm/threads/virtual_time.hpp).
// The measurement of a host itself (cluster/node_sample.hpp) runs once.
//   ulimit -s 256; bench_node_check N
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "base/clock.hpp"
#include "cluster/node_outliers.hpp"
#include "comm/threads/run_ranks.hpp"
#include "io/json.hpp"
#include "train/start/node_check.hpp"

using namespace lm;

namespace {

double cpu_s() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void report(const char* what, const Stopwatch& watch, double cpu_before) {
    std::printf("%-28s wall %8.3f s  cpu %8.3f s\n", what, watch.elapsed_s(), cpu_s() - cpu_before);
}

}  // namespace

int main(int argc, char** argv) {
    const int n_hosts = argc > 1 ? std::atoi(argv[1]) : 1000;
    Stopwatch watch;
    double cpu = cpu_s();
    const cluster::NodeSample sample = cluster::sample_node({"/tmp"});
    report("one host", watch, cpu);
    const comm::LinkModel links{.latency_s = 20e-6, .bytes_per_s = 25e9 / 8};
    const auto exchange = [&](comm::Group& hosts, comm::VirtualClock& clock) {
        hosts.barrier();
        const Stopwatch exchanged;
        const double cpu_before = cpu_s();
        cluster::NodeSample own = sample;
        own.host = "n" + std::to_string(hosts.rank());
        const std::vector<cluster::NodeSample> samples =
            train::exchange_samples(hosts, std::move(own));
        if (hosts.rank() != 0) return;
        report("exchange of all hosts", exchanged, cpu_before);
        std::printf("%-28s %13.3f s at 25 Gbit/s, latency 20 us\n", "exchange on virtual links",
                    clock.now_s());
        const Stopwatch compared;
        const double cpu_between = cpu_s();
        const size_t n_findings = cluster::find_outliers(samples).size();
        report("comparison on rank 0", compared, cpu_between);
        std::printf("%zu samples of %zu bytes, %zu findings\n", samples.size(),
                    io::json_line(cluster::to_json(samples.front())).size(), n_findings);
    };
    comm::run_ranks_in_virtual_time(n_hosts, links, exchange, {.timeout_s = 600});
    return 0;
}
