// SPDX-License-Identifier: Apache-2.0
#include "engine_options.hpp"

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "config/tokenizer_flags.hpp"

namespace lm::ckpt_tool {

void add_engine_options(cli::Options& options, EngineArgs& args) {
    options.group("Model");
    options.choice(
        "--dtype", &args.dtype, {"fp32", "bf16", "fp16"},
        "type of the matrices in memory; default: the type in CKPT; sums are always fp32");
    options.value("--memory", &args.memory, "SIZE",
                  "memory that weights may use; layers that do not fit are read again for each "
                  "token; default: four fifths of the free memory");
    options.value("--threads", &args.n_threads, "N", "threads; 0: one per core");
    config::add_tokenizer_options(
        options, args.tokenizer,
        "default: the tokenizer in CKPT, or the tokenizer with which CKPT was trained");
}

std::unique_ptr<eval::Engine> load_engine(const ckpt::TensorSource& tensors, const EngineArgs& args,
                                          i64 sequences, i64 context) {
    eval::EngineOptions options{.sequences = sequences, .context = context};
    options.n_threads = static_cast<int>(args.n_threads);
    if (args.memory) {
        check_at_least("--memory", args.memory->value, 1);
        options.memory = args.memory->value;
    }
    if (!args.dtype.empty()) options.dtype = dtype_from_name(args.dtype);
    auto engine = eval::open_engine(tensors, options);
    const eval::Residency& residency = engine->residency();
    if (residency.n_layers_read > 0) {
        const double seconds =
            static_cast<double>(residency.bytes_read) / std::max(residency.bytes_per_s, 1.0);
        note(
            "{}: the weights need {}, but only {} fit ({}): {} of {} layers ({}) are read from the "
            "files again for each token; estimated time for each token: {}",
            tensors.path(), human_size(residency.bytes), human_size(residency.limit),
            residency.whose, residency.n_layers_read, tensors.model().n_layers,
            human_size(residency.bytes_read), human_duration(seconds));
    }
    return engine;
}

}  // namespace lm::ckpt_tool
