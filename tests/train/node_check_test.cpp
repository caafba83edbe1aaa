// SPDX-License-Identifier: Apache-2.0
// Tests exchange_samples(). Each member of the group is a thread and stands for one host.
#include "train/start/node_check.hpp"

#include "base/error.hpp"
#include "comm/threads/run_ranks.hpp"
#include "support/catch.hpp"

using namespace lm;

TEST_CASE("member 0 gets the samples of all hosts in their order, each with its network speed") {
    const int n_hosts = GENERATE(1, 2, 3, 8, 13);
    comm::run_ranks(n_hosts, [n_hosts](comm::Group& hosts) {
        const std::vector<cluster::NodeSample> samples =
            train::exchange_samples(hosts, {.host = "n" + std::to_string(hosts.rank()),
                                            .memory = 1000 + hosts.rank(),
                                            .gflops = 20});
        if (hosts.rank() != 0) {
            LM_CHECK(samples.empty(), "expected no samples, got {}", samples.size());
            return;
        }
        REQUIRE(static_cast<int>(samples.size()) == n_hosts);
        for (int i = 0; i < n_hosts; ++i) {
            const cluster::NodeSample& sample = samples[static_cast<size_t>(i)];
            CHECK(sample.host == "n" + std::to_string(i));
            CHECK(sample.memory == 1000 + i);
            CHECK((sample.network_gbps > 0) == (n_hosts > 1));
        }
    });
}
