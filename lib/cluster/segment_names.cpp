// SPDX-License-Identifier: Apache-2.0
#include "cluster/segment_names.hpp"

#include <charconv>
#include <regex>
#include <string>
#include <vector>

namespace lm::cluster {
namespace {

struct KnownName {
    const char* program;
    const char* pattern;  // the whole name; its group, if it has one, is the pid of the creator
    int pid_base = 10;
};

constexpr KnownName known_names[] = {
    {"NCCL", "nccl-[A-Za-z0-9]{6}"},               // src/misc/shmutils.cc
    {"PyTorch", "torch_([0-9]+)_[0-9]+_[0-9]+"},   // NewProcessWideShmHandle()
    {"PyTorch", "torch_([0-9]+)_[0-9]+"},          // before 1.12
    {"Python", "psm_[0-9a-f]{8}"},                 // multiprocessing.shared_memory
    {"Python", "sem\\.mp-[a-z0-9_]{8}"},           // multiprocessing.synchronize
    {"joblib", "sem\\.loky-([0-9]+)-[a-z0-9_]+"},  // loky
    {"Open MPI", "(?:vader|sm)_segment\\.[^/]+"},  // btl/vader, btl/sm
    {"Open MPI", "osc_rdma\\.[^/]+"},              // osc/rdma
    {"Open MPI", "coll_(?:sm|shm|han)[._][^/]+"},  //
    {"PMIx", "pmix(?:-gds-shmem|_dstor)[^/]+"},    // gds/shmem
    {"UCX", "ucx_shm_(?:posix_)?[0-9a-f]+"},       // uct/sm/mm/posix
    {"MPICH", "mpich_shar_tmp[A-Za-z0-9]{6}"},     //
    {"Intel MPI", "Intel_MPI_[A-Za-z0-9]{6}"},     //
    {"Intel MPI", "shm-col-space-[^/]+"},          //
    {"PSM", "psm[23]?_shm\\.[^/]+"},               // Omni-Path
    {"CUDA", "cuda\\.shm\\.[0-9a-f]+\\.([0-9a-f]+)\\.[0-9a-f]+", 16},
    {"libfabric", "fi_shm_([0-9]+)(?:[_:][^/]*)?"},  // prov/shm
};

std::vector<std::regex> compiled() {
    std::vector<std::regex> patterns;
    for (const KnownName& known : known_names) patterns.emplace_back(known.pattern);
    return patterns;
}

}  // namespace

std::optional<SegmentMaker> maker_of(std::string_view file_name) {
    // Regular expressions of libstdc++ recurse over the text. Names of files have at most 255
    // bytes.
    static const std::vector<std::regex> patterns = compiled();
    for (size_t i = 0; i < patterns.size(); ++i) {
        const KnownName& known = known_names[i];
        std::match_results<std::string_view::const_iterator> found;
        if (!std::regex_match(file_name.begin(), file_name.end(), found, patterns[i])) continue;
        SegmentMaker maker{known.program};
        if (found.size() > 1) {
            const std::string pid = found[1];
            const auto [end, error] =
                std::from_chars(pid.data(), pid.data() + pid.size(), maker.creator, known.pid_base);
            if (error != std::errc()) continue;
        }
        return maker;
    }
    return std::nullopt;
}

}  // namespace lm::cluster
