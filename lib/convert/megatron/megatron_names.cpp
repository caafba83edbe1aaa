// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/megatron_names.hpp"

#include <charconv>

#include "base/error.hpp"

namespace lm::convert {
namespace {

struct Name {
    std::string_view theirs;  // without ".weight" or ".bias"
    std::string_view own;
};

// The oldest names, the names of 2023, and the names of megatron-core: with its own layers, and
// with TransformerEngine's layers.
constexpr std::array layer_names{
    Name{"input_layernorm", "attention.norm"},
    Name{"input_norm", "attention.norm"},
    Name{"self_attention.query_key_value", "attention.qkv"},
    Name{"attention.query_key_value", "attention.qkv"},
    Name{"self_attention.linear_qkv", "attention.qkv"},
    Name{"self_attention.q_layernorm", "attention.query_norm"},
    Name{"self_attention.k_layernorm", "attention.key_norm"},
    Name{"self_attention.dense", "attention.output"},
    Name{"attention.dense", "attention.output"},
    Name{"self_attention.linear_proj", "attention.output"},
    Name{"post_attention_layernorm", "mlp.norm"},
    Name{"post_attention_norm", "mlp.norm"},
    Name{"pre_mlp_layernorm", "mlp.norm"},
    Name{"mlp.dense_h_to_4h", "mlp.up"},
    Name{"mlp.linear_fc1", "mlp.up"},
    Name{"mlp.dense_4h_to_h", "mlp.down"},
    Name{"mlp.linear_fc2", "mlp.down"},
};
constexpr std::array outer_names{
    Name{"word_embeddings", "embedding.word"},
    Name{"position_embeddings", "embedding.position"},
    Name{"word_embeddings.norm", "embedding.norm"},
    Name{"final_layernorm", "final_norm"},
    Name{"final_norm", "final_norm"},
    Name{"output_layer", "head"},
    Name{"lm_head", "head"},
};

std::string translate(std::span<const Name> names, std::string_view name) {
    const size_t dot = name.rfind('.');
    if (dot == name.npos) return {};
    for (const Name& row : names) {
        if (row.theirs == name.substr(0, dot)) {
            return std::string(row.own) + std::string(name.substr(dot));
        }
    }
    return {};
}

i64 share(i64 n, const MegatronPart& part, const std::string& what) {
    if (n % part.tp != 0) {
        usage_error("--tensor-model-parallel-size", "{} does not divide the {} {}", part.tp, n,
                    what);
    }
    return n / part.tp;
}

// Megatron divides the rows of the padded vocabulary among the tensor ranks. Returns the rows of
// one rank: a range of the tensor `own`, which has `vocab` rows, and for padding a range without a
// tensor.
std::vector<RowRange> vocab_rows(const std::string& own, i64 vocab, const MegatronPart& part) {
    const i64 n = share(part.padded_vocab, part, "rows of the vocabulary");
    const i64 begin = std::min(part.tp_rank * n, vocab);
    const i64 end = std::min((part.tp_rank + 1) * n, vocab);
    std::vector<RowRange> rows;
    if (begin < end) rows.push_back({own, begin, end});
    if (end - begin < n) rows.push_back({"", 0, n - (end - begin)});
    return rows;
}

}  // namespace

std::optional<i64> consume_number(std::string_view& text) {
    constexpr size_t max_digits = 12;
    const size_t n = std::min(text.find_first_not_of("0123456789"), text.size());
    if (n == 0 || n > max_digits) return std::nullopt;
    i64 number = 0;
    std::from_chars(text.data(), text.data() + n, number);
    text.remove_prefix(n);
    return number;
}

std::optional<i64> parse_number(std::string_view text) {
    const std::optional<i64> number = consume_number(text);
    return text.empty() ? number : std::nullopt;
}

std::optional<NumberedName> parse_numbered(std::string_view name) {
    const std::optional<i64> number = consume_number(name);
    if (!number || !name.starts_with('.')) return std::nullopt;
    return NumberedName{*number, name.substr(1)};
}

std::string_view without_modules(std::string_view name) {
    for (bool found = true; found;) {
        found = false;
        for (const std::string_view module :
             {"language_model.", "embedding.", "encoder.", "transformer.", "decoder.", "module."}) {
            if (!name.starts_with(module)) continue;
            name.remove_prefix(module.size());
            found = true;
        }
    }
    return name;
}

std::string megatron_layer_name(std::string_view name, bool gated) {
    // TransformerEngine fuses a norm with the projection after it.
    if (name == "self_attention.linear_qkv.layer_norm_weight") return "attention.norm.weight";
    if (name == "self_attention.linear_qkv.layer_norm_bias") return "attention.norm.bias";
    if (name == "mlp.linear_fc1.layer_norm_weight") return "mlp.norm.weight";
    if (name == "mlp.linear_fc1.layer_norm_bias") return "mlp.norm.bias";
    std::string own = translate(layer_names, name);
    if (gated && own.starts_with("mlp.up.")) own.replace(0, 6, "mlp.gate_up");
    return own;
}

std::string megatron_outer_name(std::string_view name) {
    return translate(outer_names, name);
}

// The bias of a column-parallel layer (query, key, value and the first MLP matrix) is divided like
// the rows of the matrix. A row-parallel layer adds its bias after the all-reduce, so each rank has
// the whole bias (ColumnParallelLinear and RowParallelLinear of tensor_parallel/layers.py).
bool is_replicated(std::string_view own) {
    return own.find("norm.") != own.npos || own.ends_with("attention.output.bias") ||
           own.ends_with("mlp.down.bias") || own == "embedding.position.weight";
}

std::optional<MappedTensor> megatron_part(const ModelTensors& tensors, const std::string& own,
                                          const MegatronPart& part) {
    const spec::ModelConfig& c = tensors.config();
    constexpr std::string_view fused = "gate_up.";
    const size_t gate_up = own.find(fused);
    auto map = tensors.map(
        own, gate_up == own.npos ? own : std::string(own).replace(gate_up, fused.size(), "gate."),
        part.qkv);
    if (!map || is_replicated(own)) return map;
    if (own == "embedding.word.weight" || own == "head.weight") {
        map->rows = vocab_rows(own, c.vocab_size, part);
    } else if (const size_t at = own.find("qkv."); at != own.npos) {
        const std::string prefix = own.substr(0, at);
        const std::string suffix = own.substr(at + 3);
        const i64 n_groups = tensors.n_groups(prefix + "query" + suffix);
        const i64 n = share(n_groups, part, "key-value groups");
        map->rows =
            tensors.qkv_rows(prefix, suffix, part.qkv, part.tp_rank * n, (part.tp_rank + 1) * n);
    } else if (own.ends_with("output.weight") || own.ends_with("down.weight")) {
        const i64 n = share(map->col_end, part, "columns of " + own);
        map->col_begin = part.tp_rank * n;
        map->col_end = map->col_begin + n;
    } else {
        const i64 n = share(c.ffn_hidden, part, "rows of the MLP");
        const i64 begin = part.tp_rank * n;
        map->rows.clear();
        // The gated MLP of Megatron splits the output of one matrix in half on each rank (glu() in
        // mlp.py of megatron-core). So a rank has its rows of gate, then its rows of up. A
        // concatenation of the tensors of all ranks would alternate between gate and up.
        if (gate_up != own.npos) {
            for (const char* half : {"gate.", "up."}) {
                map->rows.push_back(
                    {std::string(own).replace(gate_up, fused.size(), half), begin, begin + n});
            }
        } else {
            map->rows = {{own, begin, begin + n}};
        }
    }
    return map;
}

}  // namespace lm::convert
