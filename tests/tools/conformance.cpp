// SPDX-License-Identifier: Apache-2.0
// The conformance suite of comm::Group as a program for mpirun and srun. Runs all cases that must
// succeed, or the named one; a failure case ends the job; "forever" prints the process numbers and
// runs until it is killed. --cuda: on device memory, over NCCL.
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/main.hpp"
#include "comm/conformance.hpp"
#include "comm/join/join.hpp"
#include "comm/on_device.hpp"
#include "train/start/gpu_environment.hpp"
#include "train/start/open_device.hpp"

using namespace lm;

namespace {

void forever(comm::Group& world) {
    std::vector<i64> pids(static_cast<size_t>(world.size()));
    i64 pid = getpid();
    world.all_gather({&pid, DType::int64, {1}}, {pids.data(), DType::int64, {world.size()}});
    if (world.rank() == 0) {
        for (const i64 each : pids) cli::write_stdout(std::to_string(each) + "\n");
        cli::flush_stdout();
    }
    std::vector<float> x(1000);
    for (;;) world.all_reduce({x.data(), DType::fp32, {1000}});
}

// The GPU of this rank and the group of all ranks over NCCL.
struct Gpu {
    Gpu(comm::Group& host, double timeout_s)
        : device(train::open_device({.cuda = true}, host)),
          world(train::cuda_plugin().join(*device, host.split(0, host.rank(), host.name()),
                                          timeout_s),
                *device) {}
    std::unique_ptr<device::Device> device;
    test::OnDevice world;
};

int run_cases(comm::Launch& launch, const comm::LaunchOptions& options, const std::string& chosen,
              bool cuda) {
    std::optional<Gpu> gpu;
    if (cuda) gpu.emplace(launch.world(), options.timeout_s);
    comm::Group& world = cuda ? gpu->world : launch.world();
    int n_run = 0;
    for (const test::ConformanceCase& c : test::conformance_cases()) {
        if (!chosen.empty() && chosen != c.name) continue;
        c.body(world);
        ++n_run;
        if (world.rank() == 0) cli::write_stdout("passed: " + c.name + "\n");
    }
    for (const test::FailureCase& c : test::failure_cases()) {
        if (chosen != c.name) continue;
        c.body(world);
        ++n_run;
    }
    if (chosen == "forever") forever(world);
    if (n_run == 0) usage_error("CASE", "no case '{}'", chosen);
    if (world.rank() == 0) cli::write_stdout(launch.describe() + "\n");
    return 0;
}

int run(const comm::LaunchOptions& options, const std::string& chosen, bool cuda) {
    const std::unique_ptr<comm::Launch> launch = comm::launch(options);
    return comm::with_one_error(*launch, [&] { return run_cases(*launch, options, chosen, cuda); });
}

}  // namespace

int main(int argc, char** argv) {
    comm::LaunchOptions options;
    std::string chosen;
    bool cuda = false;
    cli::Options table("test_conformance", "check the operations of groups of ranks");
    table.value("--timeout", &options.timeout_s, "S", "seconds to wait for missing ranks");
    table.value("--max-count", &options.max_count, "N",
                "largest number of elements of one MPI call");
    table.flag("--check", &options.check_operations, "compare the operations of all ranks");
    table.flag("--rendezvous", &options.rendezvous, "ranks may meet over TCP");
    table.flag("--cuda", &cuda, "operations on device memory, over NCCL");
    table.value("--case", &chosen, "NAME", "run this case alone");
    train::set_gpu_environment(false);
    return cli::run_main(argc, argv, table, [&] { return run(options, chosen, cuda); });
}
