// SPDX-License-Identifier: Apache-2.0
// Energy from the files of powercap, from a library with NVML's functions, and from constant power.
#include "cluster/energy_meter.hpp"

#include "base/clock.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::cluster;

namespace {

void write(const std::string& path, const std::string& text) {
    io::write_file(path, text + "\n", io::Overwrite::yes);
}

void add_zone(const std::string& directory, const std::string& zone, const std::string& name,
              const std::string& energy_uj) {
    io::make_directories(directory + "/" + zone);
    write(directory + "/" + zone + "/name", name);
    write(directory + "/" + zone + "/energy_uj", energy_uj);
    write(directory + "/" + zone + "/max_energy_range_uj", "262143328850");
}

}  // namespace

TEST_CASE("RAPL: packages and memory count, also over a restart of the counter") {
    const test::TempDir dir;
    add_zone(dir.path(), "intel-rapl:0", "package-0", "1000000");
    add_zone(dir.path(), "intel-rapl:1", "package-1", "262143000000");
    add_zone(dir.path(), "intel-rapl:0:0", "core", "500000");
    add_zone(dir.path(), "intel-rapl:0:1", "dram", "2000000");
    add_zone(dir.path(), "intel-rapl-mmio:0", "package-0", "1000000");
    EnergyMeter meter =
        EnergyMeter::open({.powercap = dir.path(), .nvml = "", .cpu_w = 99, .memory_w = 99});
    CHECK(meter.has_cpu_counters());
    CHECK(meter.has_memory_counters());
    write(dir / "intel-rapl:0/energy_uj", "11000000");
    write(dir / "intel-rapl:1/energy_uj", "671150");
    write(dir / "intel-rapl:0:1/energy_uj", "5000000");
    meter.sample(monotonic_s());
    CHECK(meter.used().cpu_j == Approx(10 + 1));
    CHECK(meter.used().memory_j == Approx(3));
    CHECK(meter.used().gpu_j == 0);
}

TEST_CASE("parts without a counter count with a constant power") {
    EnergyMeter meter =
        EnergyMeter::open({.powercap = "nowhere", .nvml = "", .cpu_w = 100, .memory_w = 5});
    CHECK_FALSE(meter.has_cpu_counters());
    const double start_s = monotonic_s();
    meter.sample(start_s);
    const EnergyUse before = meter.used();
    meter.sample(start_s + 10);
    CHECK(meter.used().cpu_j - before.cpu_j == Approx(1000));
    CHECK(meter.used().memory_j - before.memory_j == Approx(50));
}

TEST_CASE("NVML: energy, sensors and names of the GPUs") {
    CHECK_FALSE(Nvml::open("libnot-there.so.1"));
    EnergyMeter meter = EnergyMeter::open({.powercap = "nowhere", .nvml = LM_FAKE_NVML});
    REQUIRE(meter.nvml());
    const Nvml& nvml = *meter.nvml();
    REQUIRE(nvml.n_gpus() == 2);
    CHECK(nvml.name(1) == "Fake GPU 1");
    CHECK(nvml.read(0).temperature_c == 60);
    CHECK(nvml.read(0).sm_mhz == 1500);
    CHECK(nvml.read(0).max_sm_mhz == 2000);
    CHECK(nvml.read(1).uncorrected_ecc_errors == 3);
    CHECK_FALSE(nvml.read(1).energy_j);
    // GPU 0 adds 5 J at each reading; GPU 1 has no counter and uses 250 W.
    const double before_j = meter.used().gpu_j;
    const double start_s = monotonic_s();
    meter.sample(start_s);
    const double first_j = meter.used().gpu_j - before_j;
    meter.sample(start_s + 2);
    CHECK(meter.used().gpu_j - before_j - first_j == Approx(5 + 500));
}
