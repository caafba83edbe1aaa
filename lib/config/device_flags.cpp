// SPDX-License-Identifier: Apache-2.0
#include "config/device_flags.hpp"

namespace lm::config {

const Fields<DeviceFlags>& device_fields() {
    using S = DeviceFlags;
    static const Fields<S> fields = {
        {.option = "--device",
         .member = &S::choice,
         .help = "device to compute on; auto: a GPU where one is usable, else the CPU",
         .choices = {"auto", "cpu", "cuda"},
         .block = Block::run,
         .derived = Derived::combined},
        {.option = "--attention-backend",
         .member = &S::attention_backend,
         .help = "attention kernels on a GPU: fused: cuDNN where it supports the shapes; any other "
                 "value: lm-train's flash attention",
         .choices = {"auto", "flash", "fused", "unfused", "local"},
         .block = Block::training,
         .derived = Derived::combined},
        {.option = "--deterministic-mode",
         .member = &S::deterministic_mode,
         .help = "give every run the same bits with --attention-backend fused too, at the cost of "
                 "memory and time",
         .block = Block::training,
         .derived = Derived::combined},
        {.option = "--allow-tf32",
         .member = &S::allow_tf32,
         .help = "let a GPU round the operands of fp32 matrix products to TF32 (10 bits)",
         .block = Block::run,
         .derived = Derived::moved},
        {.option = "--autotune",
         .member = &S::autotune,
         .metavar = "DIR",
         .help = "before the first step, measure the algorithms of each matrix product on a GPU "
                 "and keep the choices in DIR; choices found in DIR are used without measuring; "
                 "default: the first algorithm that cuBLASLt proposes",
         .block = Block::run,
         .derived = Derived::moved},
        {.option = "--threads",
         .member = &S::threads,
         .metavar = "N",
         .help = "CPU threads of each rank; default: all usable cores, shared equally by the ranks "
                 "of a host",
         .block = Block::run,
         .derived = Derived::combined},
    };
    return fields;
}

spec::GpuAttention DeviceFlags::attention() const {
    if (attention_backend != "fused") return spec::GpuAttention::flash;
    return deterministic_mode ? spec::GpuAttention::cudnn_deterministic : spec::GpuAttention::cudnn;
}

}  // namespace lm::config
