// SPDX-License-Identifier: Apache-2.0
// lm-estimate params: the exact number of parameters of each part of a model, and the results of
// published formulas.
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/log.hpp"
#include "config/plan_warnings.hpp"
#include "cost/formulas.hpp"
#include "figures.hpp"
#include "run_flags.hpp"
#include "step_report.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

struct Flags {
    config::TrainFlags train;
    OutputFlags output;
};

void add_parts(Printout& printout, const spec::ParameterCount& count) {
    const auto part = [](const char* key, i64 n, const char* formula) {
        return Figure{key, key, Unit::count, n, formula};
    };
    printout.sum(
        "parameters",
        {part("embedding", count.embedding,
              "V x h, positions x h when learned, and the embedding's norm"),
         part("attention", count.attention,
              "query, key, value and output of all layers, weights and biases"),
         part("mlp", count.mlp, "gate, up and down of all layers, weights and biases"),
         part("norm", count.norm, "norms of all layers and the final norm"),
         part("head", count.head, "V x h when the head is not tied to the embedding"),
         part("total", count.total(),
              "the elements of all tensors in lm-train's tensor table, vocabulary unpadded")});
}

void add_formulas(Printout& printout, const spec::ModelConfig& model, i64 padded_vocab) {
    const double exact = static_cast<double>(count_parameters(model).total());
    const i64 bigscience = std::llround(cost::bigscience_parameters(model));
    const i64 megatron = std::llround(cost::megatron_parameters(model, padded_vocab));
    const auto error = [exact](i64 n) { return static_cast<double>(n) / exact - 1; };
    printout.figures(
        "approximation",
        {{"bigscience", "BigScience's formula", Unit::count, bigscience,
          "L(12h^2 + 13h) + Vh + sh + 2h (no sh without a position table, 2h more for a normalized "
          "embedding); BigScience, tr1-13B and tr8-104B"},
         {"bigscience_error", "  differs by", Unit::difference, error(bigscience), ""},
         {"megatron", "Megatron's formula", Unit::count, megatron,
          "12Lh^2 (1 + 13/(12h) + (V + s)/(12Lh)), V padded; arXiv 2104.04473, equation 2"},
         {"megatron_error", "  differs by", Unit::difference, error(megatron), ""},
         {"padded_vocab", "padded vocabulary", Unit::count, padded_vocab,
          "V rounded up to a multiple of --make-vocab-size-divisible-by x tensor-parallel size, or "
          "--pad-vocab-size-to; Megatron"},
         {"hidden_per_layer", "hidden size / layers", Unit::plain,
          static_cast<double>(model.hidden) / static_cast<double>(model.n_layers),
          "h / L; usually 100 to 200 in large models; a warning below 50 and above 400"},
         {"parameters_at_depth", "parameters at best width", Unit::count,
          static_cast<i64>(std::llround(cost::parameters_at_depth(model.n_layers))),
          "12 L exp(2 x 5.039) exp(2 x 0.0555 L) for these layers; more parameters should get "
          "more layers, fewer parameters more width; arXiv 2006.12467"},
         {"head_size", "head size", Unit::plain, model.head_dim,
          "--kv-channels, or hidden size / heads"},
         model_flops_figure(model)});
}

void add_ranks(Printout& printout, const spec::ModelConfig& model,
               const spec::ParallelConfig& parallel) {
    std::vector<std::vector<Value>> rows;
    for (i64 stage = 0; stage < parallel.pp; ++stage) {
        rows.push_back({stage, stage_layers(model, parallel, stage),
                        cost::rank_parameters(model, parallel, 0, stage)});
    }
    printout.table(
        "rank",
        {{"pp_rank", "stage", Unit::plain, ""},
         {"layers", "layers", Unit::plain,
          "uniform: floor(L (r+1) / PP) - floor(L r / PP) for stage r; otherwise by "
          "--pp-partition-method"},
         {"parameters", "parameters of a tensor rank", Unit::count,
          "the rank's part of every tensor, vocabulary padded; Megatron prints this number, too"}},
        std::move(rows));
}

void warn_of_odd_shapes(const spec::ModelConfig& model) {
    const bool all_gated = std::ranges::all_of(
        layer_kinds(model), [](const auto& layer) { return is_gated(layer.activation); });
    if (!all_gated && model.ffn_hidden != 4 * model.hidden) {
        note("--ffn-hidden-size {} is not 4 x hidden size, which would be {}", model.ffn_hidden,
             4 * model.hidden);
    }
}

int run(const Flags& flags) {
    const spec::ModelConfig model = resolve_model(flags.train);
    const spec::ParallelConfig parallel =
        resolve_parallel(flags.train.parallel, flags.train.model, model);
    warn_of_odd_shapes(model);
    config::warn_of_model(flags.train.model, model, parallel);
    Printout printout;
    add_parts(printout, count_parameters(model));
    add_formulas(printout, model, padded_vocab(model, parallel));
    if (parallel.ranks_per_replica() > 1) add_ranks(printout, model, parallel);
    printout.print(flags.output);
    return 0;
}

}  // namespace

void add_params_verb(cli::Options& program) {
    const auto flags = std::make_shared<Flags>();
    cli::Options& options =
        program.verb("params", "count the parameters of a model, exactly and by published formulas",
                     [flags] { return run(*flags); });
    options.examples({"lm-estimate params --model gpt2-124m",
                      "lm-estimate params --num-layers 24 --hidden-size 1024 --num-attention-heads "
                      "16 --seq-length 1024 --explain"});
    add_run_options(options, flags->train, {"Model", "Parallel"});
    add_output_options(options, flags->output);
}

}  // namespace lm::estimate
