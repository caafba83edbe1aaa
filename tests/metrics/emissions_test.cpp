// SPDX-License-Identifier: Apache-2.0
// The energy files: columns, rows of several runs, sums. tests/live/energy_files.py lets
// CodeCarbon read them.
#include "metrics/emissions.hpp"

#include "base/error.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::metrics;

namespace {

EmissionsRow row_of(const std::string& run, double joules) {
    return {.unix_time_s = 1.7e9,
            .run_id = run,
            .duration_s = 100,
            .cpu_j = joules,
            .gpu_j = 2 * joules,
            .ram_j = joules,
            .intensity_g = 50,
            .country_code = "FRA",
            .cpu_model = "A \"fast\" processor, 8 cores",
            .n_gpus = 2,
            .gpu_model = "GPU",
            .ram_bytes = 0x1p34};
}

i64 n_lines(const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
}

}  // namespace

TEST_CASE("each run has one row in its emissions file, which is replaced") {
    const test::TempDir dir;
    const std::string path = dir / "emissions-000.csv";
    EmissionsFile first = EmissionsFile::open(path);
    first.write(row_of("one", 1e6));
    first.write(row_of("one", 3.6e6));
    EmissionsFile second = EmissionsFile::open(path);
    second.write(row_of("two", 1e6));
    second.write(row_of("two", 3.6e6));
    const std::string text = io::read_file(path);
    CHECK(n_lines(text) == 3);
    CHECK(text.starts_with("timestamp,project_name,run_id,"));
    CHECK(text.find("\n2023-11-14T22:13:20,lm-train,one,,100,0.2,0.002,36000,72000,36000,1,2,1,4,0,"
                    "FRA,FRA,") != text.npos);
    CHECK(text.find(",\"A \"\"fast\"\" processor, 8 cores\",2,2 x GPU,,,16,machine,") != text.npos);
    const EmissionsSum sum = sum_emissions(dir.path());
    CHECK(sum.n_files == 1);
    CHECK(sum.n_runs == 2);
    CHECK(sum.duration_s == 200);
    CHECK(sum.energy_kwh == Approx(8));
    CHECK(sum.gpu_kwh == Approx(4));
    CHECK(sum.emissions_kg == Approx(0.4));
}

TEST_CASE("two runs that write to one emissions file keep each other's rows") {
    const test::TempDir dir;
    const std::string path = dir / "emissions-000.csv";
    EmissionsFile one = EmissionsFile::open(path);
    EmissionsFile two = EmissionsFile::open(path);
    for (const double joule : {1e6, 2e6, 3.6e6}) {
        one.write(row_of("one", joule));
        two.write(row_of("two", joule));
    }
    CHECK(n_lines(io::read_file(path)) == 3);
    CHECK(sum_emissions(dir.path()).n_runs == 2);
}

TEST_CASE("a file that CodeCarbon wrote has the same columns, is appended to, and added up") {
    const std::string golden =
        io::read_file(std::string(LM_TEST_DIR) + "/golden/energy/emissions.csv");
    CHECK(golden.substr(0, golden.find_first_of("\r\n")) == emissions_header());
    const test::TempDir dir;
    const std::string path = dir / "emissions.csv";
    io::write_file(path, golden, io::Overwrite::no);
    EmissionsSum sum = sum_emissions(dir.path());
    CHECK(sum.n_runs == 2);
    CHECK(sum.duration_s == 300);
    CHECK(sum.energy_kwh == Approx(6.3));
    CHECK(sum.cpu_kwh == Approx(3));
    CHECK(sum.gpu_kwh == Approx(3));
    CHECK(sum.ram_kwh == Approx(0.3));
    CHECK(sum.emissions_kg == Approx(0.3528));
    EmissionsFile::open(path).write(row_of("three", 3.6e6));
    CHECK(io::read_file(path).starts_with(golden));
    sum = sum_emissions(dir.path());
    CHECK(sum.n_runs == 3);
    CHECK(sum.energy_kwh == Approx(10.3));
}

TEST_CASE("of several rows of a run, as CodeCarbon appends them, the last one counts") {
    const test::TempDir dir;
    io::write_file(
        dir / "emissions.csv",
        "run_id,duration,emissions,energy_consumed\r\na,1,0.5,1\r\na,2,1.5,3\r\nb,1,1,1\r\n",
        io::Overwrite::no);
    io::write_file(dir / "other.csv", "x\n", io::Overwrite::no);
    const EmissionsSum sum = sum_emissions(dir.path());
    CHECK(sum.n_runs == 2);
    CHECK(sum.energy_kwh == 4);
    CHECK(sum.emissions_kg == 2.5);
    io::write_file(dir / "emissions-1.csv", "run_id,duration\n", io::Overwrite::no);
    CHECK_THROWS_WITH(sum_emissions(dir.path()), ContainsSubstring("no column"));
    CHECK_THROWS_WITH(EmissionsFile::open(dir / "emissions-1.csv"),
                      HasInOrder("emissions-1.csv", "columns"));
}
