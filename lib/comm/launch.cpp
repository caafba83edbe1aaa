// SPDX-License-Identifier: Apache-2.0
// Why plugins that are opened at run time, and not a binary for each set of features.
//
// One installation must serve the login node without a GPU, the laptop without MPI, and the cluster
// that has both in versions that no packager has seen. PyTorch publishes a package for each version
// of CUDA and one without, and its MPI backend only exists where the user compiles PyTorch. A
// program that links these libraries does not even print --help where one of them is missing.
//
// So lm-train links none of them. liblm_mpi.so, liblm_cuda.so and liblm_cudnn.so are opened when
// the launcher, --device or --attention-backend asks for them, and the plan of a GPU job
// (--dry-run, lm-estimate) needs none. The packages of the plugins depend on the libraries, and the
// package of the programs does not. A library that is missing becomes an error with a remedy at the
// place that needed it, and with --attention-backend auto a missing cuDNN only means other kernels.
//
// Two kinds of libraries are opened in two ways:
//
// - NCCL and NVML have a stable C interface. Their functions are looked up one by one
//   (cuda/nccl/nccl_library.cpp, cluster/nvml.cpp), and no plugin is between.
// - MPI had no common binary interface before MPI 5.0. A communicator is a pointer to a structure
//   in Open MPI and a number in MPICH, so code has to be compiled against one mpi.h: that is the
//   plugin. CUDA needs nvcc for its kernels, and cuDNN's frontend is a library of templates.
//
// The interface of a plugin is one exported function, which returns a struct whose first member is
// the version of the interface. The other members return C++ objects: a Group, a Device. That is
// less to write than a C interface with handles, and backends stay ordinary subclasses. The price
// is that a plugin and the programs come from one build. The version is raised by hand with each
// change of a class that crosses the border. A forgotten change may crash, so the packages also
// depend on the exact version of each other.
//
// Further costs: the linker does not check the program against the plugin, so RTLD_NOW makes a
// missing symbol an error at the start instead of in a step. A plugin is never closed, because
// objects with its virtual functions, and exit handlers of MPI and CUDA, live until the process
// ends. Exceptions cross the border by the names of their types.
//
// The interface of MPI 5.0 would turn the first plugin into a table of functions such as NCCL's,
// once clusters have it.
#include "comm/launch.hpp"

#include <cmath>

namespace lm::comm {

int with_one_error(Launch& launch, const std::function<int()>& body) {
    try {
        return body();
    } catch (const JointError&) {
        throw;
    } catch (const std::exception& exception) {
        const std::optional<Error> first = launch.ended_before(error_of(exception));
        if (!first) throw;
        throw JointError(first->code(), first->what());
    }
}

double report_after_s(int rank) {
    // The delay grows with the logarithm of the rank, so the last of 10,000 ranks waits less than 9
    // s.
    constexpr double rank_0_first_s = 2;     // if all ranks have an error, rank 0 prints it
    constexpr double twice_as_many_s = 0.5;  // added for each doubling of the rank
    return rank == 0 ? 0 : rank_0_first_s + twice_as_many_s * std::log2(rank);
}

}  // namespace lm::comm
