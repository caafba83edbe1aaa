// SPDX-License-Identifier: Apache-2.0
// The list of cases: every operation with sizes that are not multiples of a block, vector or tile,
// and with every option on and off.
#include "device/cases/op_list.hpp"

namespace lm::test {

using namespace device;

namespace {

// The activations of models that are (or are not) gated.
std::vector<Activation> activations(bool gated) {
    std::vector<Activation> result;
    for (const auto& [activation, name] : spec::activations) {
        if (spec::is_gated(activation) == gated) result.push_back(activation);
    }
    return result;
}

void add_linears(OpList& list, Activation activation) {
    for (const bool bias : {false, true}) {
        add_linear(list, 1, 1, 1, bias, activation);
        add_linear(list, 3, 5, 7, bias, activation);
        add_linear(list, 67, 37, 29, bias, activation);
    }
    add_linear(list, 261, 391, 40, true, activation);  // several tiles in both dimensions
}

void add_embeddings_and_linears(OpList& list) {
    add_embedding(list, 1, 3, 1, false, 0);
    add_embedding(list, 37, 11, 5, true, 4);
    add_embedding(list, 70, 13, 131, true, 0);
    add_linears(list, Activation::none);
    for (const Activation activation : activations(false)) add_linears(list, activation);
    add_linear(list, 1030, 8, 16, true, Activation::none);  // many blocks of rows
    for (const Activation gate : activations(true)) {
        add_gated(list, 1, 1, gate);
        add_gated(list, 5, 37, gate);
        add_gated(list, 19, 1100, gate);
        add_gated(list, 3, 2312, gate);
    }
    for (const bool inverse : {false, true}) {
        add_rotary(list, {1, 1, 1, 2, 0, inverse});
        add_rotary(list, {2, 21, 3, 10, 7, inverse});
        add_rotary(list, {1, 33, 2, 128, 128, inverse});
    }
}

void add_norms(OpList& list) {
    for (const Norm norm : {Norm::layer_norm, Norm::rms_norm}) {
        for (const double p : {0.0, 0.3}) {
            add_norm(list, {.batch = 1, .length = 1, .width = 1, .norm = norm, .p = p});
            add_norm(list, {.batch = 3, .length = 5, .width = 5, .norm = norm, .p = p});
            add_norm(list, {.batch = 2, .length = 65, .width = 67, .norm = norm, .p = p});
            add_norm(list, {.batch = 1, .length = 3, .width = 768, .norm = norm, .p = p});
            add_norm(list, {.batch = 3, .length = 37, .width = 64, .norm = norm, .p = p});
        }
        // Rows of several steps of a block, and rows that do not fit into shared memory.
        for (const i64 width : {2304, 4104, 8200, 50000}) {
            add_norm(list, {.batch = 1, .length = 3, .width = width, .norm = norm, .p = 0.1});
        }
        add_norm(list, {.batch = 1, .length = 7, .width = 9, .norm = norm, .bias = false});
        add_norm(list, {.batch = 1, .length = 7, .width = 9, .norm = norm, .branch = false});
        add_norm(list, {.batch = 1, .length = 7, .width = 9, .norm = norm, .residual = false});
        add_norm(list, {.batch = 1, .length = 7, .width = 9, .norm = norm, .sum = false, .p = 0.5});
    }
    for (const double p : {0.0, 0.5}) {
        add_norm(list, {.batch = 2, .length = 7, .width = 9, .y = false, .p = p});
        add_norm(list, {.batch = 2, .length = 40, .width = 67, .y = false, .p = p});
    }
    // Rows that are a part of the samples (sequence parallelism).
    for (const bool y : {false, true}) {
        add_norm(
            list,
            {.batch = 3, .length = 5, .width = 9, .y = y, .p = 0.4, .first_row = 7, .n_rows = 6});
    }
}

void add_attentions(OpList& list) {
    for (const double p : {0.0, 0.2}) {
        add_attention(list, {1, 1, 1, 1, 1, false, false, p});
        add_attention(list, {2, 7, 3, 1, 5, false, true, p});
        add_attention(list, {1, 64, 2, 2, 64, false, false, p});
        add_attention(list, {1, 65, 4, 2, 80, true, false, p});
        add_attention(list, {2, 131, 2, 1, 16, true, true, p});
        add_attention(list, {1, 193, 1, 1, 128, false, true, p});
    }
    // Cases that cuDNN supports, too.
    add_attention(list, {2, 200, 6, 2, 64, false, false, 0.0});
    add_attention(list, {1, 130, 4, 4, 128, false, false, 0.0});
    add_attention(list, {1, 200, 2, 2, 64, true, false, 0.1});
    // Narrow and wide heads, odd numbers of heads, grouped queries.
    add_attention(list, {1, 150, 6, 2, 32, true, true, 0.2});
    add_attention(list, {1, 97, 2, 1, 256, true, true, 0.1});
    add_attention(list, {2, 72, 3, 3, 256, false, true, 0.0});
    add_attention(list, {1, 129, 5, 1, 96, false, true, 0.0});
}

void add_losses_and_updates(OpList& list) {
    add_cross_entropy(list, 1, 1, 1, 0, 1.0);
    add_cross_entropy(list, 5, 7, 7, 0, 1.0);
    add_cross_entropy(list, 9, 61, 53, 100, 3.0);
    add_cross_entropy(list, 3, 5003, 4999, 0, 10.0);
    for (const i64 n : {1, 67, 70001}) {
        add_adamw(list, n, n == 1 ? 1 : 5, n == 67, n == 1 ? 1 : 10);
        add_sums(list, n, n == 67);
        add_simple(list, n);
    }
    add_adamw(list, 4096, 300, true, 3);
}

void add_later_cases(OpList& list) {
    for (const Norm norm : {Norm::layer_norm, Norm::rms_norm}) {
        for (const i64 width : {2304, 4104}) {
            add_norm(list, {.batch = 1, .length = 2, .width = width, .norm = norm});
        }
    }
    add_attention(list, {1, 270, 2, 1, 64, true, false, 0.0});
    add_embedding(list, 1500, 2, 5, false, 0);  // tokens that occur in many rows
    add_embedding(list, 4500, 300, 8, true, 0);
    for (const Activation activation : activations(false)) {
        for (const bool bias : {false, true}) {
            add_linear(list, 19, 48, 24, bias, activation);  // sizes for which a GPU can fuse GELU
            add_linear_recomputed(list, 3, 5, 7, bias, activation);
            add_linear_recomputed(list, 67, 37, 29, bias, activation);
            add_linear_recomputed(list, 19, 48, 24, bias, activation);
        }
    }
}

// Gradients of parameters that replace the content of the buffer instead of being added to it;
// gradients of the branch's bias, with one and with several rows for each block, and without a
// norm.
void add_branch_biases(OpList& list) {
    add_head_norm(list, {2, 19, 3, 1, 64, Norm::layer_norm, false, false});
    for (const i64 width : {5, 24, 768, 2504, 4104}) {
        for (const double p : {0.0, 0.1}) {
            add_norm(list, {.batch = 2,
                            .length = width > 1000 ? 7 : 40,
                            .width = width,
                            .norm = p > 0 ? Norm::rms_norm : Norm::layer_norm,
                            .bias = p == 0,
                            .p = p,
                            .branch_bias = true,
                            .accumulate = width != 768});
        }
    }
    add_norm(list, {.batch = 1, .length = 40, .width = 64, .branch = false, .branch_bias = true});
    for (const double p : {0.0, 0.1}) {
        add_norm(list, {.batch = 2,
                        .length = 9,
                        .width = 72,
                        .y = false,
                        .p = p,
                        .branch_bias = true,
                        .accumulate = p > 0});
    }
}

// Rotation of a part of each head and of adjacent pairs, 1 + weight in a norm, and the squared
// ReLU.
void add_variants(OpList& list) {
    for (const bool inverse : {false, true}) {
        for (const bool interleaved : {false, true}) {
            add_rotary(list, {2, 5, 3, 7, 7, inverse, 4, interleaved});
            add_rotary(list, {1, 9, 2, 64, 64, inverse, 32, interleaved});
        }
        add_rotary(list, {2, 11, 3, 10, 7, inverse, 0, true});
        add_rotary(list, {1, 13, 2, 128, 128, inverse, 0, true});
    }
    for (const Norm norm : {Norm::layer_norm, Norm::rms_norm}) {
        for (const i64 width : {5, 67, 768, 4104}) {
            add_norm(list, {.batch = 2,
                            .length = 3,
                            .width = width,
                            .norm = norm,
                            .p = 0.1,
                            .one_plus = true});
        }
        add_norm(list, {.batch = 1, .length = 40, .width = 64, .norm = norm, .one_plus = true});
        add_norm(
            list,
            {.batch = 1, .length = 7, .width = 9, .norm = norm, .bias = false, .one_plus = true});
    }
    for (const Norm norm : {Norm::layer_norm, Norm::rms_norm}) {
        add_head_norm(list, {1, 1, 1, 1, 1, norm});
        add_head_norm(list, {2, 7, 3, 1, 5, norm, true});
        add_head_norm(list, {1, 70, 4, 2, 64, norm});
        add_head_norm(list, {2, 33, 2, 2, 80, norm, true});
        add_head_norm(list, {1, 3, 2, 1, 256, norm});
        // On a GPU: first a block that loops several times, and in the last loop uses only a part
        // of its lanes; then a width that gives each lane several columns, and allows no wide
        // accesses.
        add_head_norm(list, {1, 43, 11, 2, 64, norm});
        add_head_norm(list, {1, 9, 2, 1, 70, norm});
    }
    add_joint_norm(list, {1, 1, 1, 1, 0});
    add_joint_norm(list, {2, 7, 15, 5, 5, 1, true});
    add_joint_norm(list, {2, 33, 96, 48, 48, 0.5, false, false});
    add_joint_norm(list, {1, 43, 2056, 264, 264, 0.25, true});
    for (const i64 n : {1, 67, 70001}) add_fingerprint(list, n);
    add_whole_cross_entropy(list, 5, 7, 7, 1.0);
    add_whole_cross_entropy(list, 3, 5003, 4999, 10.0);
    add_whole_cross_entropy(list, 1, 30011, 30001, 3.0);  // fp32: too long for shared memory
    add_branch_biases(list);
}

// Random values depend on the position in the list, so new cases belong to add_variants(), at the
// end.
OpList all_cases() {
    restart_values();
    OpList list;
    add_embeddings_and_linears(list);
    add_norms(list);
    add_attentions(list);
    add_losses_and_updates(list);
    add_later_cases(list);
    add_variants(list);
    return list;
}

}  // namespace

const OpList& op_cases() {
    static const OpList list = all_cases();
    return list;
}

}  // namespace lm::test
