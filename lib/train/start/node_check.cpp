// SPDX-License-Identifier: Apache-2.0
#include "train/start/node_check.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "cluster/node_outliers.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/lines.hpp"
#include "io/path.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"
#include "train/save/save_report.hpp"

namespace lm::train {
namespace {

// A pair of hosts exchanges short messages first. They make the connection, and their time predicts
// the time of a long message. Then the pair exchanges two long messages, whose bandwidth depends
// less on the latency. If a long message would take more than longest_exchange_s, the pair keeps
// the bandwidth of the short messages. So the long messages of a round take about 0.1 s at most.
constexpr i64 short_bytes = i64{256} << 10;
constexpr i64 long_bytes = i64{8} << 20;
constexpr double longest_exchange_s = 0.05;

// Returns the clock of this host minus the median of the clocks of all hosts, in seconds. Each
// round reads the clocks right after a barrier. The function returns the difference with the
// smallest absolute value of all rounds, because a host may leave a barrier late. Collective.
double clock_skew_s(comm::Group& hosts) {
    constexpr int n_rounds = 5;
    const auto n = static_cast<size_t>(hosts.size());
    std::vector<double> skews;
    std::vector<double> clocks(n);
    for (int round = 0; round < n_rounds; ++round) {
        hosts.barrier();
        double own = unix_time_s();
        hosts.all_gather({&own, DType::fp64, {1}}, {clocks.data(), DType::fp64, {hosts.size()}});
        std::ranges::sort(clocks);
        skews.push_back(own - clocks[n / 2]);
    }
    return *std::ranges::min_element(skews, {}, [](double skew) { return std::abs(skew); });
}

// Sends `n_bytes` to `partner` and receives `n_bytes` from it at the same time. Returns the
// duration in seconds.
double exchange(comm::Group& hosts, int partner, std::byte* in, std::byte* out, i64 n_bytes) {
    const Stopwatch watch;
    comm::Work received = hosts.start_receive({in, DType::uint8, {n_bytes}}, partner);
    comm::Work sent = hosts.start_send({out, DType::uint8, {n_bytes}}, partner);
    received.wait();
    sent.wait();
    return watch.elapsed_s();
}

// Returns the larger of `own_s` and the partner's `own_s`. Both hosts get the same result.
double longer_of_both(comm::Group& hosts, int partner, double own_s) {
    double theirs_s = 0;
    exchange(hosts, partner, reinterpret_cast<std::byte*>(&theirs_s),
             reinterpret_cast<std::byte*>(&own_s), sizeof own_s);
    return std::max(own_s, theirs_s);
}

double gbps(i64 n_bytes, double seconds) {
    return 2e-9 * static_cast<double>(n_bytes) / seconds;
}

// Returns the best measured bandwidth of this host in 1e9 bytes/s, the sum of both directions. In
// round r, counted from 0, host i exchanges messages with host i XOR 2^r, if that host exists. In
// ceil(log2(n)) rounds a host thus has up to that number of partners, so a slow partner does not
// hide a fast network. Collective.
double network_gbps(comm::Group& hosts) {
    std::vector<std::byte> in(short_bytes), out(short_bytes);
    double best = 0;
    for (int distance = 1; distance < hosts.size(); distance *= 2) {
        const int partner = hosts.rank() ^ distance;
        hosts.barrier();
        if (partner >= hosts.size()) continue;
        exchange(hosts, partner, in.data(), out.data(), short_bytes);  // makes the connection
        const double own_s = exchange(hosts, partner, in.data(), out.data(), short_bytes);
        best = std::max(best, gbps(short_bytes, own_s));
        const double long_s = longer_of_both(hosts, partner, own_s) *
                              static_cast<double>(long_bytes) / static_cast<double>(short_bytes);
        if (long_s > longest_exchange_s) continue;
        in.resize(long_bytes);
        out.resize(long_bytes);
        for (int round = 0; round < 2; ++round) {
            best = std::max(best, gbps(long_bytes, exchange(hosts, partner, in.data(), out.data(),
                                                            long_bytes)));
        }
    }
    return best;
}

// Returns the speeds that the ranks of this host have measured, in the order of the ranks; an empty
// list if no rank of the job has measured a GPU. `own`: the speeds of this rank's GPUs. A shorter
// list than the longest of the job is filled with zeros. Collective.
std::vector<double> speeds_on_host(comm::Group& world, std::vector<double> own) {
    i64 most = static_cast<i64>(own.size());
    world.all_reduce({&most, DType::int64, {1}}, comm::Reduction::max);
    if (most == 0) return {};
    const std::unique_ptr<comm::Group> host = parallel::group_of_host(world);
    own.resize(static_cast<size_t>(most));
    std::vector<double> all(own.size() * static_cast<size_t>(host->size()));
    host->all_gather({own.data(), DType::fp64, {most}},
                     {all.data(), DType::fp64, {most * host->size()}});
    return all;
}

// Throws when a host does not see a file that rank 0 creates in `save`, or in the first existing
// directory above it: the directory of that host is another one, for example because the file
// system is not mounted there. Collective.
void check_shared(comm::Group& world, const std::string& save) {
    const std::string mark = parallel::broadcast_text(
        world, fmt::format("{}/.lm-node-check.shared.{:.0f}", existing_directories({save}).front(),
                           1e6 * unix_time_s()));
    parallel::together(world, [&] {
        if (world.rank() == 0) io::write_file(mark, "", io::Overwrite::no);
    });
    const bool seen = io::exists(mark);
    world.barrier();
    parallel::together(world, [&] {
        if (world.rank() == 0) io::checked::unlink(mark);
        if (seen) return;
        run_error(save,
                  "is not the directory of rank 0, so no save can succeed: mount its file system, "
                  "or exclude this host");
    });
}

}  // namespace

HostSamples sample_nodes(comm::Group& world, const std::vector<std::string>& directories,
                         const std::vector<double>& own_tflops) {
    const bool is_first = parallel::place_on_host(world) == 0;
    const std::vector<double> speeds = speeds_on_host(world, own_tflops);
    const std::unique_ptr<comm::Group> hosts =
        world.split(is_first ? 0 : -1, world.rank(), "hosts");
    HostSamples samples;
    if (is_first) {
        cluster::NodeSample own = cluster::sample_node(directories);
        for (size_t i = 0; i < std::min(speeds.size(), own.gpus.size()); ++i) {
            own.gpus[i].tflops = speeds[i];
        }
        samples.own = own;
        samples.all = exchange_samples(*hosts, std::move(own));
    }
    world.barrier();
    return samples;
}

std::vector<cluster::NodeSample> exchange_samples(comm::Group& hosts, cluster::NodeSample own) {
    own.clock_skew_s = clock_skew_s(hosts);
    if (!hosts.relays_messages()) own.network_gbps = network_gbps(hosts);
    SaveReport report{.text = io::json_line(cluster::to_json(own))};
    join_reports(hosts, report);
    std::vector<cluster::NodeSample> samples;
    if (hosts.rank() != 0) return samples;
    for (const std::string_view line : io::lines_of(report.text)) {
        samples.push_back(
            cluster::node_sample_from_json(io::parse_json(line, "node check"), "node check"));
    }
    return samples;
}

std::vector<std::string> existing_directories(const std::vector<std::string>& paths) {
    std::vector<std::string> found;
    for (std::string path : paths) {
        if (path.empty()) continue;
        while (!io::is_directory(path) && path != io::parent_of(path)) path = io::parent_of(path);
        if (std::ranges::find(found, path) == found.end()) found.push_back(path);
    }
    return found;
}

void check_hosts(comm::Group& world, const std::vector<std::string>& directories,
                 const std::string& save, const std::vector<double>& own_tflops) {
    const HostSamples samples = sample_nodes(world, directories, own_tflops);
    const std::vector<cluster::NodeFinding> findings = cluster::find_outliers(samples.all);
    for (const cluster::NodeFinding& finding : findings) {
        if (finding.host.empty()) {
            warn("node check: {}", finding.text);
            continue;
        }
        warn("node check: {}: {}: check or exclude this host", finding.host, finding.text);
    }
    parallel::together(world, [&] {
        if (!samples.own) return;
        for (const cluster::DirectorySample& directory : samples.own->directories) {
            if (directory.path == save && directory.refused) {
                fail(Exit::failure, directory.problem, "no save can succeed: exclude this host");
            }
        }
    });
    if (!save.empty()) check_shared(world, save);
}

}  // namespace lm::train
