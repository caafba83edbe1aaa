// SPDX-License-Identifier: Apache-2.0
#include "config/optimizer_flags.hpp"

#include "base/error.hpp"
#include "config/field_json.hpp"

namespace lm::config {

using io::OrderedJson;

const Fields<spec::AdamWConfig>& optimizer_fields() {
    using S = spec::AdamWConfig;
    static const FieldsIn<S, Block::training> fields = {
        {.option = "--adam-beta1",
         .member = &S::beta1,
         .metavar = "B",
         .help = "decay of the running mean of the gradient"},
        {.option = "--adam-beta2",
         .member = &S::beta2,
         .metavar = "B",
         .help = "decay of the running mean of the squared gradient"},
        {.option = "--adam-eps",
         .member = &S::eps,
         .metavar = "E",
         .help = "added to the square root of the running mean of the squared gradient"},
        {.option = "--weight-decay",
         .member = &S::weight_decay,
         .metavar = "W",
         .help = "decoupled weight decay of matrices and embeddings",
         .on_resume = OnResume::schedule},
        {.option = "--clip-grad",
         .member = &S::clip_grad,
         .metavar = "NORM",
         .help = "largest global gradient norm; 0: no clipping"},
    };
    return fields;
}

const Fields<PrecisionFlags>& precision_fields() {
    using S = PrecisionFlags;
    static const FieldsIn<S, Block::none> fields = {
        {.option = "--fp16",
         .member = &S::fp16,
         .json = [](const Resolved& r) -> OrderedJson { return r.weights == DType::fp16; },
         .help = "fp16 weights with fp32 master weights; default: fp32 only",
         .block = Block::training},
        {.option = "--bf16",
         .member = &S::bf16,
         .json = [](const Resolved& r) -> OrderedJson { return r.weights == DType::bf16; },
         .help = "bf16 weights with fp32 master weights",
         .block = Block::training},
        {.option = "--fp32-residual-connection",
         .member = &S::fp32_residual,
         .help = "refused with --fp16 and --bf16, where the residual stream has the type of the "
                 "weights"},
    };
    return fields;
}

const Fields<spec::LossScaleConfig>& loss_scale_fields() {
    using S = spec::LossScaleConfig;
    static const FieldsIn<S, Block::training> fields = {
        {.option = "--loss-scale",
         .member = &S::fixed,
         .metavar = "X",
         .help = "fixed loss scale with --fp16; default: a dynamic one"},
        {.option = "--initial-loss-scale",
         .member = &S::initial,
         .metavar = "X",
         .help = "dynamic loss scale at the start",
         .on_resume = OnResume::ignored},
        {.option = "--min-loss-scale",
         .member = &S::min,
         .metavar = "X",
         .help = "smallest dynamic loss scale"},
        {.option = "--loss-scale-window",
         .member = &S::window,
         .metavar = "N",
         .help = "steps without overflow after which the dynamic scale doubles"},
        {.option = "--hysteresis",
         .member = &S::hysteresis,
         .metavar = "N",
         .help = "halve the dynamic scale at the Nth overflow after its last doubling, and at each "
                 "later overflow"},
    };
    return fields;
}

spec::Precision resolve_precision(const PrecisionFlags& flags, const MegatronChoices& choices) {
    if (flags.fp16 && flags.bf16)
        usage_error("--bf16", "cannot be combined with --fp16: give one of the two");
    if (flags.fp32_residual && (flags.fp16 || flags.bf16)) {
        usage_error(
            "--fp32-residual-connection",
            "the residual stream has the type of the weights: omit this flag, or train in fp32");
    }
    const DType weights = flags.fp16 ? DType::fp16 : flags.bf16 ? DType::bf16 : DType::fp32;
    return {weights, value_in(spec::optimizers, choices.optimizer).value()};
}

}  // namespace lm::config
