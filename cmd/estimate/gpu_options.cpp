// SPDX-License-Identifier: Apache-2.0
#include "gpu_options.hpp"

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/types.hpp"
#include "base/version.hpp"
#include "io/file.hpp"

namespace lm::estimate {
namespace {

const std::vector<std::string> gpus = {"a100", "a100-40g", "a100-efa", "h100",
                                       "h200", "v100",     "cpu"};
const std::vector<std::string> networks = {"hdr", "ndr", "omni-path", "efa"};
const std::vector<std::string> trainers = {"lm-train", "megatron"};

// Sets the network of a node to that of --network and --nics.
void set_network(const GpuFlags& flags, cost::Hardware& hardware) {
    check_at_least("--nics", flags.nics, 1);
    const double of_link = hardware.network.bytes_per_s / as_double(hardware.nics);
    cost::Link link{of_link, hardware.network.latency_s};
    if (!flags.network.empty()) {
        const std::string path = share_file("hardware/networks/" + flags.network + ".txt");
        link = cost::parse_network(path, io::read_input(path));
    }
    hardware.nics = flags.nics.value_or(hardware.nics);
    hardware.network = {link.bytes_per_s * as_double(hardware.nics), link.latency_s};
}

}  // namespace

void add_gpu_options(cli::Options& options, GpuFlags& flags, const std::string& gpu,
                     const std::string& trainer) {
    flags.options = &options;
    flags.gpu = gpu;
    flags.trainer = trainer;
    options.choice(
        "--gpu", &flags.gpu, gpus,
        "GPU and its node, described in share/lm-utils/hardware/NAME.txt; a100 has 80 GB");
    options.value("--hardware", &flags.hardware_file, "FILE",
                  "description of another GPU and node, in the format of the --gpu files");
    options.value("--gpus-per-node", &flags.gpus_per_node, "N",
                  "GPUs in a node; default: from --gpu");
    options.value(
        "--node-bandwidth", &flags.node_bandwidth, "SIZE",
        "bytes per second between a GPU and its node in a large all-reduce; default: from --gpu");
    options.choice("--network", &flags.network, networks,
                   "links between nodes, described in share/lm-utils/hardware/networks/NAME.txt; "
                   "default: from --gpu");
    options.value("--nics", &flags.nics, "N",
                  "network links (rails) of a node; default: from --gpu");
    options.value("--network-bandwidth", &flags.network_bandwidth, "SIZE",
                  "bytes per second from a node to other nodes; default: from --gpu");
    options.choice("--trainer", &flags.trainer, trainers,
                   "program that is estimated: lm-train (fused attention, not measured on GPUs "
                   "yet) or megatron (Megatron-LM and "
                   "Megatron-DeepSpeed of 2021 and 2022, with unfused attention, whose step times "
                   "are published, and whose memory is that of arXiv 2205.05198; --fp16 is assumed "
                   "unless --bf16 is given). time and layout have different defaults");
}

cost::Hardware resolve_hardware(const GpuFlags& flags) {
    if (!flags.hardware_file.empty() && flags.gpu.given) {
        usage_error("--hardware", "{} and --gpu {} both describe the GPU: give one of them",
                    flags.hardware_file, flags.gpu.value);
    }
    const std::string path = flags.hardware_file.empty()
                                 ? share_file("hardware/" + flags.gpu.value + ".txt")
                                 : flags.hardware_file;
    if (!io::exists(path)) usage_error("--hardware", "{} does not exist", path);
    cost::Hardware hardware = cost::parse_hardware(path, io::read_input(path));
    check_at_least("--gpus-per-node", flags.gpus_per_node, 1);
    if (flags.gpus_per_node) hardware.gpus_per_node = *flags.gpus_per_node;
    if (flags.node_bandwidth) {
        check_at_least("--node-bandwidth", flags.node_bandwidth->value, 1);
        hardware.node.bytes_per_s = as_double(flags.node_bandwidth->value);
    }
    set_network(flags, hardware);
    if (flags.network_bandwidth) {
        check_at_least("--network-bandwidth", flags.network_bandwidth->value, 1);
        hardware.network.bytes_per_s = as_double(flags.network_bandwidth->value);
    }
    return hardware;
}

cost::TrainingProgram resolve_trainer(const GpuFlags& flags) {
    return is_megatron(flags) ? cost::megatron_2021 : cost::lm_train;
}

bool is_megatron(const GpuFlags& flags) {
    return flags.trainer.value == "megatron";
}

}  // namespace lm::estimate
