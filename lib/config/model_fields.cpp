// SPDX-License-Identifier: Apache-2.0
#include "config/model_fields.hpp"

#include <algorithm>
#include <iterator>

#include "config/field_json.hpp"

namespace lm::config {
namespace {

using io::OrderedJson;

std::vector<std::string> position_choices() {
    std::vector<std::string> names = names_in(spec::position_embeddings);
    names.insert(names.begin() + 1, std::string(learned_absolute));
    names.emplace_back(rotary);
    names.emplace_back(yarn);
    return names;
}

std::vector<std::string> normalization_choices() {
    std::vector<std::string> names = names_in(spec::normalizations);
    for (const auto& [value, name] : deepspeed_normalizations) names.emplace_back(name);
    return names;
}

std::vector<std::string> glu_choices() {
    std::vector<std::string> names;
    for (const auto& [activation, name] : spec::activations) {
        if (is_gated(activation)) names.emplace_back(name);
    }
    return names;
}

}  // namespace

const Fields<ModelFlags>& shape_fields() {
    using S = ModelFlags;
    static const FieldsIn<S, Block::model, OnResume::refused> fields = {
        {.option = "--num-layers",
         .member = &S::n_layers,
         .metavar = "N",
         .help = "transformer layers"},
        {.option = "--hidden-size",
         .member = &S::hidden,
         .metavar = "N",
         .help = "width of the residual stream"},
        {.option = "--ffn-hidden-size",
         .member = &S::ffn_hidden,
         .metavar = "N",
         .help = "width of the MLP; default: 4 times the hidden size, with --swiglu 8/3 times the "
                 "hidden size, rounded down to a multiple of 64"},
        {.option = "--num-attention-heads",
         .member = &S::n_heads,
         .metavar = "N",
         .help = "attention heads"},
        {.option = "--group-query-attention",
         .member = &S::group_query_attention,
         .help = "grouped-query attention: groups of heads share keys and values",
         .block = Block::none},
        {.option = "--num-query-groups",
         .member = &S::n_groups,
         .metavar = "N",
         .help = "key-value groups with --group-query-attention; default: 1"},
        {.option = "--num-key-value-heads",
         .member = &S::kv_heads,
         .metavar = "N",
         .help = "the same as --group-query-attention --num-query-groups N",
         .block = Block::none},
        {.option = "--kv-channels",
         .member = &S::kv_channels,
         .metavar = "N",
         .help = "size of a head; default: hidden size / heads"},
        {.option = "--seq-length",
         .member = &S::seq_length,
         .metavar = "N",
         .help = "tokens in a training sequence",
         .on_resume = OnResume::samples},
        {.option = "--max-position-embeddings",
         .member = &S::max_positions,
         .metavar = "N",
         .help = "rows of the position table; default: the sequence length"},
    };
    return fields;
}

namespace {

// The flags of spec::RotaryScaling, which has one key in JSON.
FieldsIn<ModelFlags, Block::none> scaling_fields() {
    using S = ModelFlags;
    return {
        {.help = "the scaling of rotary frequencies",
         .block = Block::model,
         .name = "rope_scaling",
         .on_resume = OnResume::refused_rope},
        {.option = "--use-rope-scaling",
         .member = &S::rope_scaling,
         .help = "divide low rotary frequencies for a longer context, as Llama 3.1 does"},
        {.option = "--rope-scaling-factor",
         .member = &S::rope_scaling_factor,
         .metavar = "X",
         .help = "divisor of --use-rope-scaling"},
        {.option = "--rope-scaling-low-freq-factor",
         .member = &S::llama3_low,
         .metavar = "X",
         .help = "--use-rope-scaling divides frequencies with at most X turns in the original "
                 "context"},
        {.option = "--rope-scaling-high-freq-factor",
         .member = &S::llama3_high,
         .metavar = "X",
         .help = "--use-rope-scaling keeps frequencies with at least X turns in the original "
                 "context"},
        {.option = "--rope-scaling-original-max-position-embeddings",
         .member = &S::llama3_original,
         .metavar = "N",
         .help = "original context of --use-rope-scaling, tokens"},
        {.option = "--rotary-seq-len-interpolation-factor",
         .member = &S::interpolation,
         .metavar = "X",
         .help = "divide all rotary frequencies by X"},
        {.option = "--rotary-scaling-factor",
         .member = &S::yarn_factor,
         .metavar = "X",
         .help = "divisor of low frequencies with --position-embedding-type yarn"},
        {.option = "--yarn-original-max-position-embeddings",
         .member = &S::yarn_original,
         .metavar = "N",
         .help = "original context of yarn, tokens"},
        {.option = "--yarn-beta-fast",
         .member = &S::yarn_beta_fast,
         .metavar = "X",
         .help = "yarn keeps frequencies with at least X turns in the original context"},
        {.option = "--yarn-beta-slow",
         .member = &S::yarn_beta_slow,
         .metavar = "X",
         .help = "yarn divides frequencies with at most X turns in the original context"},
        {.option = "--no-yarn-correction-range-round-to-int",
         .member = &S::yarn_truncate,
         .help = "do not round the numbers of these two frequencies to whole ones",
         .clears = true},
        {.option = "--mscale",
         .member = &S::yarn_mscale,
         .metavar = "X",
         .help = "yarn multiplies queries and keys by (0.1 X ln F + 1) / (0.1 Y ln F + 1), F: "
                 "--rotary-scaling-factor"},
        {.option = "--mscale-all-dim",
         .member = &S::yarn_mscale_all_dim,
         .metavar = "Y",
         .help = "see --mscale"},
        {.option = "--rope-attention-factor",
         .member = &S::rope_attention_factor,
         .metavar = "X",
         .help = "factor of queries and keys with yarn; 0: that of --mscale"},
    };
}

FieldsIn<ModelFlags, Block::model, OnResume::refused_rope> position_fields() {
    using S = ModelFlags;
    return {
        {.option = "--position-embedding-type",
         .member = &S::position,
         .help = "encoding of positions; rotary is another name of rope, yarn is rope scaled by "
                 "--rotary-scaling-factor as YaRN does",
         .choices = position_choices(),
         .on_resume = OnResume::refused},
        {.option = "--use-rotary-position-embeddings",
         .member = &S::rotary,
         .help = "the same as --position-embedding-type rope",
         .block = Block::none},
        {.option = "--no-position-embedding",
         .member = &S::no_position,
         .help = "no position table; the same as --position-embedding-type none unless alibi or "
                 "rope is given",
         .block = Block::none},
        {.option = "--rotary-base,--rotary-position-embeddings-theta",
         .member = &S::rotary_base,
         .metavar = "X",
         .help = "base of the rotary frequencies"},
        {.option = "--rotary-percent",
         .member = &S::rotary_percent,
         .metavar = "X",
         .help = "fraction of each head that rotary positions rotate"},
        {.option = "--rotary-interleaved",
         .member = &S::rotary_interleaved,
         .help = "rotate adjacent pairs of a head instead of its halves"},
        {.option = "--rope-local-base-freq",
         .member = &S::rotary_local_base,
         .metavar = "X",
         .help = "base of the rotary frequencies in layers with a window, which are then not "
                 "scaled; 0: that of all layers"},
        {.option = "--llama-4-scaling-beta",
         .member = &S::query_beta,
         .metavar = "X",
         .help = "multiply a query at position P by 1 + X ln(1 + floor(P / original context))"},
        {.option = "--window-size",
         .member = &S::window_size,
         .metavar = "LEFT,0",
         .help = "attention window: a query sees its own key and the LEFT previous keys",
         .name = "window",
         .on_resume = OnResume::refused},
        {.option = "--window-attn-skip-freq",
         .member = &S::full_layers,
         .metavar = "N|LIST",
         .help = "layers without the window: every Nth, or those with 0 in a list such as "
                 "([1]*3+[0])*8",
         .on_resume = OnResume::refused},
        {.option = "--no-rope-freq",
         .member = &S::unrotated_layers,
         .metavar = "N|LIST",
         .help = "layers without rotary positions: every Nth, or those with 1 in a list",
         .on_resume = OnResume::refused},
    };
}

FieldsIn<ModelFlags, Block::model, OnResume::refused> norm_fields() {
    using S = ModelFlags;
    return {
        {.option = "--normalization",
         .member = &S::normalization,
         .help = "normalization before attention, MLP and head",
         .choices = normalization_choices()},
        {.option = "--norm-placement",
         .member = &S::norms,
         .help = "norms of the inputs of attention and MLP (pre), of their outputs, or of both",
         .choices = names_in(spec::norm_placements)},
        {.option = "--layernorm-epsilon,--norm-epsilon",
         .member = &S::norm_eps,
         .metavar = "X",
         .help = "added to the variance in a normalization"},
        {.option = "--embed-layernorm",
         .member = &S::embedding_norm,
         .help = "normalize the output of the word embedding"},
        {.option = "--no-norm-bias",
         .member = &S::norm_bias,
         .help = "LayerNorm without bias",
         .name = "norm_bias",
         .clears = true},
        {.option = "--apply-layernorm-1p",
         .member = &S::norm_1p,
         .help = "normalizations multiply by 1 + weight, and weights start at 0"},
        {.option = "--qk-layernorm",
         .member = &S::qk_norm,
         .help = "normalize each head of query and key before attention"},
        {.option = "--qk-layernorm-all-heads",
         .member = &S::joint_qk_norm,
         .help = "normalize all heads of query together, and all of key"},
        {.option = "--use-parallel-residual",
         .member = &S::parallel_residual,
         .help = "attention and MLP of a layer read the same residual stream, as in GPT-NeoX"},
        {.option = "--parallel-shared-norm",
         .member = &S::shared_norm,
         .help = "with --use-parallel-residual: attention and MLP have one norm, as in Cohere's "
                 "models"},
        {.option = "--embedding-multiplier",
         .member = &S::embedding_scale,
         .metavar = "X",
         .help = "factor of the embedding's output"},
        {.option = "--attention-multiplier",
         .member = &S::attention_scale,
         .metavar = "X",
         .help = "factor of attention scores; default: 1 / sqrt(size of a head)"},
        {.option = "--residual-multiplier",
         .member = &S::residual_scale,
         .metavar = "X",
         .help = "factor of each output that attention or MLP adds to the residual stream"},
        {.option = "--logit-scale",
         .member = &S::logit_scale,
         .metavar = "X",
         .help = "factor of the logits"},
    };
}

FieldsIn<ModelFlags, Block::model, OnResume::refused> mlp_and_head_fields() {
    using S = ModelFlags;
    return {
        {.help = "the activation function", .name = "activation"},
        {.option = "--swiglu",
         .member = &S::swiglu,
         .help = "SwiGLU in the MLP",
         .block = Block::none},
        {.option = "--glu-activation",
         .member = &S::glu_activation,
         .help = "gated activation of the MLP; unlike --swiglu it keeps the default MLP width",
         .choices = glu_choices(),
         .block = Block::none},
        {.option = "--openai-gelu",
         .member = &S::openai_gelu,
         .help = "the tanh form of GELU, which is the default",
         .block = Block::none},
        {.option = "--no-bias-gelu-fusion",
         .member = &S::bias_gelu_fusion,
         .help = "the erf form of GELU, unless --openai-gelu is given",
         .block = Block::none,
         .clears = true},
        {.option = "--squared-relu",
         .member = &S::squared_relu,
         .help = "squared ReLU in the MLP",
         .block = Block::none},
        {.option = "--untie-embeddings-and-output-weights",
         .member = &S::untied_head,
         .help = "output projection with its own weights instead of those of the word embedding"},
        {.option = "--disable-bias-linear",
         .member = &S::linear_bias,
         .help = "linear layers without bias",
         .name = "linear_bias",
         .clears = true},
        {.option = "--add-qkv-bias",
         .member = &S::qkv_bias,
         .help = "bias of query, key and value with --disable-bias-linear"},
    };
}

}  // namespace

const Fields<ModelFlags>& kind_fields() {
    static const Fields<ModelFlags> fields = [] {
        Fields<ModelFlags> all = position_fields();
        std::ranges::copy(scaling_fields(), std::back_inserter(all));
        std::ranges::copy(norm_fields(), std::back_inserter(all));
        std::ranges::copy(mlp_and_head_fields(), std::back_inserter(all));
        return all;
    }();
    return fields;
}

const Fields<ModelFlags>& initial_fields() {
    using S = ModelFlags;
    static const FieldsIn<S, Block::none> fields = {
        {.option = "--attention-dropout",
         .member = &S::attention_dropout,
         .metavar = "P",
         .help = "dropout of attention probabilities",
         .block = Block::model},
        {.option = "--hidden-dropout",
         .member = &S::hidden_dropout,
         .metavar = "P",
         .help = "dropout of the embedding and of each output that is added to the residual stream",
         .block = Block::model},
        {.option = "--seed",
         .member = &S::seed,
         .json = [](const Resolved& r) -> OrderedJson { return r.seed; },
         .metavar = "N",
         .help = "seed of weights, dropout and data order",
         .block = Block::training,
         .on_resume = OnResume::samples},
        {.option = "--init-method-std",
         .member = &S::init_std,
         .metavar = "X",
         .help = "standard deviation of initial weights; divided by the square root of 2 x layers "
                 "for the output projections of attention and MLP",
         .block = Block::model,
         .on_resume = OnResume::ignored},
        {.option = "--vocab-size",
         .member = &S::vocab_size,
         .metavar = "N",
         .help = "size of the vocabulary; default: the size in the checkpoint, the tokenizer, the "
                 "data or --model, else GPT-2's 50257",
         .block = Block::model,
         .on_resume = OnResume::refused},
        {.option = "--make-vocab-size-divisible-by",
         .member = &S::vocab_divisible_by,
         .metavar = "N",
         .help = "pad the vocabulary in memory to a multiple of N x tensor-parallel size"},
        {.option = "--pad-vocab-size-to,--padded-vocab-size",
         .member = &S::pad_vocab_to,
         .metavar = "N",
         .help = "pad the vocabulary in memory to N rows, instead of to a multiple"},
        {.option = "--softmax-over-padding",
         .member = &S::softmax_over_padding,
         .help = "include the logits of the vocabulary padding in the softmax of the loss, as "
                 "Megatron-LM does"},
    };
    return fields;
}

}  // namespace lm::config
