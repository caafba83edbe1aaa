// SPDX-License-Identifier: Apache-2.0
#include "config/device_flags.hpp"

#include "config/field_json.hpp"

namespace lm::config {
namespace {

using io::OrderedJson;

std::vector<std::string> attention_choices() {
    std::vector<std::string> names = names_in(spec::gpu_attentions);
    names.insert(names.end(), {"unfused", "local"});  // of Megatron; the same as flash
    return names;
}

}  // namespace

const Fields<DeviceFlags>& device_fields() {
    using S = DeviceFlags;
    static const FieldsIn<S, Block::run> fields = {
        {.option = "--device",
         .member = &S::choice,
         .json = [](const Resolved& r) -> OrderedJson { return r.cuda ? "cuda" : "cpu"; },
         .help = "device to compute on; auto: a GPU where one is usable, else the CPU",
         .choices = {"auto", "cpu", "cuda"}},
        {.option = "--attention-backend",
         .member = &S::attention_backend,
         .json = [](const Resolved& r) -> OrderedJson {
             return r.cuda ? OrderedJson(name_in(spec::gpu_attentions, r.attention)) : omitted();
         },
         .help = "attention kernels on a GPU; auto: cuDNN where it is installed and supports the "
                 "shapes; fused: as auto, but an error in fp32 and if cuDNN is not installed; any "
                 "other value: lm-train's flash attention",
         .choices = attention_choices(),
         .block = Block::training},
        {.option = "--deterministic-mode",
         .member = &S::deterministic_mode,
         .json = [](const Resolved& r) -> OrderedJson {
             return r.cuda ? OrderedJson(r.deterministic) : omitted();
         },
         .help = "give bit-identical results in every run on the same GPUs: use lm-train's "
                 "attention kernels, the first algorithm that cuBLASLt proposes (no --autotune), "
                 "and NCCL without NVLS",
         .block = Block::training},
        {.option = "--allow-tf32",
         .member = &S::allow_tf32,
         .json = [](const Resolved& r) -> OrderedJson { return r.allow_tf32; },
         .help = "let a GPU round the operands of fp32 matrix products to TF32 (10-bit mantissa)"},
        {.option = "--autotune",
         .member = &S::autotune,
         .json = [](const Resolved& r) -> OrderedJson { return r.autotune; },
         .metavar = "DIR",
         .help = "before the first step, measure the algorithms of each matrix product on a GPU "
                 "and keep the choices in DIR; choices found in DIR are used without measuring; "
                 "off: the first algorithm that cuBLASLt proposes; default: autotune in the "
                 "directory of --save; off without --save or with --deterministic-mode"},
        {.option = "--tensor-comm-sms",
         .member = &S::tensor_comm_sms,
         .json = [](const Resolved& r) -> OrderedJson { return r.tensor_comm_sms; },
         .metavar = "N",
         .help = "SMs that are reserved for tensor-parallel collectives during matrix products, "
                 "and the largest number of NCCL thread blocks in such a collective; 0: matrix "
                 "products use all SMs, and collectives have no limit; default: computed from the "
                 "widths of the model and the number of tensor ranks, at most 23"},
        {.option = "--threads",
         .member = &S::threads,
         .json = [](const Resolved& r) -> OrderedJson { return r.n_threads; },
         .metavar = "N",
         .help = "CPU threads of each rank; default: all usable cores, shared equally by the ranks "
                 "of a host"},
    };
    return fields;
}

spec::GpuAttention DeviceFlags::attention() const {
    if (deterministic_mode) return spec::GpuAttention::flash;
    return value_in(spec::gpu_attentions, attention_backend).value_or(spec::GpuAttention::flash);
}

}  // namespace lm::config
