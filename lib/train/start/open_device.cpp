// SPDX-License-Identifier: Apache-2.0
#include "train/start/open_device.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"
#include "cost/nccl.hpp"
#include "cpu/cpu_device.hpp"
#include "parallel/grid.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"
#include "train/step/gemm_tuning.hpp"

namespace lm::train {
namespace {

// Returns the path of the plugin. It is in LM_PLUGIN_DIR if that variable is set, else in the
// directory of this library.
std::filesystem::path plugin_path() {
    if (const char* const directory = std::getenv("LM_PLUGIN_DIR")) {
        return std::filesystem::path(directory) / cuda::plugin_file;
    }
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&cuda_plugin), &info) == 0) return cuda::plugin_file;
    return std::filesystem::path(info.dli_fname).parent_path() / cuda::plugin_file;
}

const cuda::Plugin* open_plugin() {
    const std::filesystem::path path = plugin_path();
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) {
        run_error("cuda",
                  "this build has no CUDA plugin ({}): build with nvcc, or use --device cpu",
                  path.string());
    }
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        run_error("cuda",
                  "the CUDA plugin cannot be opened: {}: install CUDA's libraries, or set "
                  "LD_LIBRARY_PATH to their directory (on a cluster: load the CUDA module)",
                  dlerror());
    }
    using Entry = const cuda::Plugin* (*)();
    const auto entry = reinterpret_cast<Entry>(dlsym(library, cuda::plugin_symbol));
    if (entry == nullptr) {
        run_error(
            path.string(),
            "is not a CUDA plugin of this toolkit: install the program and the plugin from one "
            "build");
    }
    const cuda::Plugin* const plugin = entry();
    if (plugin->abi != cuda::plugin_abi) {
        run_error(path.string(),
                  "was built from another version: expected ABI {}, got {}: install the program "
                  "and the plugin from one build",
                  cuda::plugin_abi, plugin->abi);
    }
    return plugin;
}

}  // namespace

const cuda::Plugin& cuda_plugin() {
    static const cuda::Plugin* const plugin = open_plugin();
    return *plugin;
}

namespace {

// Returns the index of this rank among the ranks of its host.
i64 place_of(comm::Group& world) {
    const i64 by_name = parallel::place_on_host(world);
    return rank_on_host().value_or(by_name);
}

// Returns the index of the GPU that rank `place` of a host uses.
int index_of_gpu(i64 place) {
    const i64 n_devices = cuda_plugin().count_devices();
    if (n_devices > 1 && place >= n_devices) {
        run_error(
            "cuda",
            "rank {} of this host, counted from 0, finds only {} GPUs: start at most one rank "
            "for each GPU",
            place, n_devices);
    }
    // If a rank sees only one GPU, the launcher has assigned a GPU to each rank.
    return n_devices == 1 ? 0 : static_cast<int>(place);
}

void measure_products(device::Device& device, const TrainerConfig& config, int rank) {
    const Stopwatch watch;
    ChoicesInDirectory choices(config.autotune);
    const spec::Coordinates at = spec::coordinates_of(config.parallel, rank);
    device.tune(&choices);
    const int tensor = config.parallel.tp > 1 ? static_cast<int>(config.tensor_comm_sms) : 0;
    std::set<int> held;
    for (const bool collectives : {false, config.data_parallel.overlaps()}) {
        const int others = cost::nccl_blocks(config.parallel, at.pp, collectives);
        held.insert({others, others + tensor});
    }
    for (const int n : held) {
        device.reserve_sms(n);
        tune_linear_layers(device, config, linear_shapes(config, at.tp));
    }
    device.tune(nullptr);
    if (rank != 0) return;
    note("autotune: {} matrix products measured, {} found in {}, in {:.1f} s", choices.n_kept(),
         choices.n_found(), config.autotune, watch.elapsed_s());
}

// Returns why cuDNN cannot compute the attention of this model; empty: cuDNN can.
std::string cudnn_obstacle(const TrainerConfig& config) {
    if (!is_half(config.precision.weights)) return "cuDNN needs --bf16 or --fp16";
    if (config.model.attention_dropout > 0) {
        return "the dropout mask of cuDNN differs from that of lm-train: set --attention-dropout 0 "
               "to use cuDNN";
    }
    return {};
}

// Makes attention use cuDNN, unless --attention-backend selects the kernels of lm-train, cuDNN
// cannot compute the model's attention, or a rank cannot use cuDNN. Throws an error in the last
// case with --attention-backend fused. Collective.
void choose_attention(const TrainerConfig& config, device::Device& device, comm::Group& world) {
    if (config.attention == spec::GpuAttention::flash) return;
    std::string why = cudnn_obstacle(config);
    if (why.empty()) {
        parallel::together(world, [&] {
            why = device.use_cudnn(true);
            if (why.empty() || config.attention == spec::GpuAttention::automatic) return;
            run_error("--attention-backend fused",
                      "{}: remove --attention-backend fused to use the kernels of lm-train", why);
        });
        i64 without = why.empty() ? 0 : 1;
        world.all_reduce({&without, DType::int64, {1}});
        if (without == 0) return;
        (void)device.use_cudnn(false);  // one rank cannot use cuDNN, so no rank uses it
        if (why.empty())
            why = fmt::format("{} of {} ranks cannot use cuDNN", without, world.size());
    }
    if (world.rank() != 0) return;
    note("attention: using the kernels of lm-train instead of cuDNN: {}", why);
}

}  // namespace

bool has_driver() {
    if (std::getenv("LM_PLUGIN_DIR") != nullptr) return true;
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver != nullptr) dlclose(driver);
    return driver != nullptr;
}

std::string claim_gpu(i64 place) {
    try {
        cuda_plugin().claim_device(index_of_gpu(place));
        return {};
    } catch (const Error& error) {
        return error.what();
    }
}

bool may_have_gpu(const std::string& choice) {
    if (choice != "auto") return choice == "cuda";
    if (!has_driver()) return false;
    const std::optional<i64> place = rank_on_host();
    const std::string why = place ? claim_gpu(*place) : "";
    if (!why.empty()) note("computing on the CPU: {}", why);
    return why.empty();
}

bool choose_gpus(const std::string& choice, comm::Group& world) {
    if (choice != "auto") return choice == "cuda";
    const i64 place = place_of(world);
    const bool driver = has_driver();
    const std::string why = driver ? claim_gpu(place) : "no NVIDIA driver";
    const bool claimed = why.empty();
    i64 n_gpus = claimed ? 1 : 0;
    world.all_reduce({&n_gpus, DType::int64, {1}});
    if (n_gpus == 0 && driver && world.rank() == 0) note("computing on the CPU: {}", why);
    if (n_gpus == 0) return false;
    if (n_gpus == world.size()) return true;
    // The first rank without a GPU has the largest value.
    i64 without = claimed ? 0 : world.size() - world.rank();
    world.all_reduce({&without, DType::int64, {1}}, comm::Reduction::max);
    const i64 first_without = world.size() - without;
    if (world.rank() == first_without) warn("rank {}: {}", world.rank(), why);
    throw JointError(
        Exit::usage,
        fmt::format(
            "--device auto: only {} of {} ranks can use a GPU, and rank {} cannot: give --device "
            "cpu, or repair the host of that rank",
            n_gpus, world.size(), first_without));
}

std::unique_ptr<device::Device> open_device(const TrainerConfig& config, comm::Group& world) {
    if (!config.cuda) return cpu::make_device(config.n_threads);
    const i64 place = place_of(world);
    std::unique_ptr<device::Device> device;
    parallel::together(world, [&] { device = cuda_plugin().open_device(index_of_gpu(place)); });
    return device;
}

void choose_kernels(const TrainerConfig& config, device::Device& device, comm::Group& world) {
    if (!config.cuda) return;
    parallel::together(world, [&] {
        if (config.allow_tf32) device.allow_tf32();
    });
    choose_attention(config, device, world);
}

void autotune(const TrainerConfig& config, device::Device& device, comm::Group& world) {
    if (!config.cuda || config.autotune.empty()) return;
    parallel::together(world, [&] { measure_products(device, config, world.rank()); });
}

parallel::Grid connect(const TrainerConfig& config, device::Device& device, comm::Group& world,
                       double timeout_s) {
    if (!config.cuda || world.size() == 1) return parallel::make_grid(world, config.parallel);
    const auto gpus =
        cuda_plugin().join(device, world.split(0, world.rank(), world.name()), timeout_s);
    parallel::Grid grid = parallel::make_grid(*gpus, config.parallel);
    parallel::connect(grid, config.data_parallel.overlaps(), !config.model.untied_head,
                      config.tensor_comm_sms);
    return grid;
}

}  // namespace lm::train
