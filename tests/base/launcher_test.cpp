// SPDX-License-Identifier: Apache-2.0
// The variables of each launcher, in an environment that the test defines.
#include <map>

#include "base/launcher.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using test::caught;

namespace {

struct Variables {
    std::map<std::string, std::string> values;

    Environment get() const {
        return [this](const char* name) -> const char* {
            const auto found = values.find(name);
            return found == values.end() ? nullptr : found->second.c_str();
        };
    }
    Launched started(std::initializer_list<Launcher> among = {Launcher::open_mpi, Launcher::pmi,
                                                              Launcher::pmix, Launcher::torchrun,
                                                              Launcher::slurm}) const {
        return launched_by(among, get());
    }
    bool refused(const std::string& text) const {
        const auto error = caught([&] { (void)started(); });
        return error.threw && error.code == Exit::usage && error.says(text);
    }
};

const std::map<std::string, std::string> srun = {{"SLURM_PROCID", "5"},
                                                 {"SLURM_STEP_NUM_TASKS", "6"},
                                                 {"SLURM_STEP_ID", "2"},
                                                 {"SLURM_LOCALID", "1"},
                                                 {"SLURM_JOB_ID", "123456"},
                                                 {"SLURM_JOB_NODELIST", "login,m[1-9]"},
                                                 {"SLURM_STEP_NODELIST", "gpu[07-12,15],m3"}};

}  // namespace

TEST_CASE("a process without a launcher is the only rank") {
    const Launched launched = Variables{}.started();
    CHECK(launched.by == Launcher::none);
    CHECK(launched.rank == 0);
    CHECK(launched.size == 1);
    CHECK_FALSE(launched.in_slurm_step);
    CHECK_FALSE(rank_on_host(Variables{}.get()));
    CHECK(slurm_job(Variables{}.get()).empty());
}

TEST_CASE("each launcher states rank, number of ranks and rank on the host") {
    struct Case {
        Launcher launcher;
        std::map<std::string, std::string> told;
        int size;
    };
    const auto [launcher, told, size] = GENERATE(values<Case>({
        {Launcher::open_mpi,
         {{"OMPI_COMM_WORLD_RANK", "5"},
          {"OMPI_COMM_WORLD_SIZE", "8"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}},
         8},
        {Launcher::pmi, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}}, 8},
        {Launcher::pmix, {{"PMIX_RANK", "5"}, {"LOCAL_RANK", "1"}}, 0},
        {Launcher::torchrun, {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}}, 8},
        {Launcher::slurm, srun, 6},
    }));
    const Variables variables{told};
    const Launched launched = variables.started();
    CHECK(launched.by == launcher);
    CHECK(launched.rank == 5);
    CHECK(launched.size == size);
    CHECK(launched.in_slurm_step == (launcher == Launcher::slurm));
    CHECK(rank_on_host(variables.get()) == 1);
    CHECK(variables.started({}).by == Launcher::none);
}

TEST_CASE("srun --mpi=pmix: the variables of the step state the number of ranks") {
    Variables variables{srun};
    variables.values["PMIX_RANK"] = "5";
    const Launched launched = variables.started();
    CHECK(launched.by == Launcher::pmix);
    CHECK(launched.size == 6);
    CHECK(launched.in_slurm_step);
}

TEST_CASE("of several launchers the first in the caller's list is used") {
    // In a job of Slurm, mpirun starts its daemons as a step, so ranks have the variables of both.
    Variables variables{srun};
    variables.values["OMPI_COMM_WORLD_RANK"] = "11";
    variables.values["OMPI_COMM_WORLD_SIZE"] = "12";
    CHECK(variables.started().rank == 11);
    CHECK(variables.started({Launcher::slurm, Launcher::open_mpi}).rank == 5);
    CHECK(variables.started({Launcher::torchrun}).by == Launcher::none);
}

TEST_CASE("a job script outside srun is the only rank") {
    const Variables batch{{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "7"}}};
    CHECK(batch.started().by == Launcher::none);
    CHECK(slurm_job(batch.get()) == "7");
}

TEST_CASE("an incomplete or empty set of variables is ignored") {
    CHECK(Variables{{{"RANK", "3"}}}.started().by == Launcher::none);
    CHECK(Variables{{{"PMI_RANK", "3"}, {"PMI_SIZE", ""}}}.started().by == Launcher::none);
}

TEST_CASE("an error names a variable with an invalid value") {
    CHECK(Variables{{{"RANK", "8"}, {"WORLD_SIZE", "8"}}}.refused("RANK: '8' "));
    CHECK(Variables{{{"RANK", "-1"}, {"WORLD_SIZE", "8"}}}.refused("RANK: '-1'"));
    CHECK(Variables{{{"PMI_RANK", "0"}, {"PMI_SIZE", "0"}}}.refused("PMI_SIZE: '0'"));
    CHECK(Variables{{{"PMIX_RANK", "1x"}}}.refused("PMIX_RANK: '1x'"));
    const Variables local{{{"SLURM_LOCALID", "first"}}};
    CHECK_THROWS_WITH(rank_on_host(local.get()), ContainsSubstring("SLURM_LOCALID: 'first'"));
}

TEST_CASE("the meeting point of torchrun is MASTER_ADDR and MASTER_PORT") {
    Variables variables{
        {{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "fd00::1"}, {"MASTER_PORT", "6000"}}};
    const Launched launched = variables.started();
    const MeetingPoint point = meeting_point(launched, variables.get());
    CHECK(point.host == "fd00::1");
    CHECK(point.port == 6000);
    CHECK(point.token.empty());
    CHECK_FALSE(point.agent_store);
    variables.values["MASTER_PORT"] = "65536";
    CHECK_THROWS_WITH(meeting_point(launched, variables.get()),
                      HasInOrder("MASTER_PORT: '65536' ", "1 to 65535"));
    variables.values.erase("MASTER_ADDR");
    CHECK_THROWS_WITH(meeting_point(launched, variables.get()), StartsWith("MASTER_ADDR: "));
}

TEST_CASE("the meeting point of srun is the first host of the step and the port of the job") {
    Variables variables{srun};
    const Launched launched = variables.started();
    const MeetingPoint point = meeting_point(launched, variables.get());
    CHECK(point.host == "gpu07");
    CHECK((point.port >= 20000 && point.port < 32000));
    CHECK(point.token.empty());
    variables.values["SLURM_STEP_ID"] = "3";
    CHECK(meeting_point(launched, variables.get()).port == point.port + 1);
    variables.values["MASTER_PORT"] = "6001";
    variables.values["MASTER_ADDR"] = "n0";
    variables.values["LM_RENDEZVOUS_TOKEN"] = "secret";
    const MeetingPoint given = meeting_point(launched, variables.get());
    CHECK(given.host == "n0");
    CHECK(given.port == 6001);
    CHECK(given.token == "secret");
    variables.values.erase("MASTER_ADDR");
    variables.values.erase("SLURM_STEP_NODELIST");
    CHECK(meeting_point(launched, variables.get()).host == "login");
    variables.values["SLURM_JOB_ID"] = "x";
    CHECK_THROWS_WITH(meeting_point(launched, variables.get()), StartsWith("SLURM_JOB_ID: 'x' "));
}

TEST_CASE("the first host of a node list") {
    CHECK(first_host("n1") == "n1");
    CHECK(first_host("n1,n2") == "n1");
    CHECK(first_host("n[3-7]") == "n3");
    CHECK(first_host("n[003,5-7]-ib,x") == "n003-ib");
    CHECK(first_host("rack[1-2]node[3-4]") == "rack1node3");
    CHECK(first_host("") == "");
}
