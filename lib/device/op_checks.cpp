// SPDX-License-Identifier: Apache-2.0
// A table would hide the relations between arguments, so each operation has its few lines. Compute
// types are f32, bf16 and f16; f64 is accepted too, then for everything: the reference loops run in
// it when tests take finite differences.
#include "device/op_checks.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace lm::device {
namespace {

// Collects what one operation's arguments must be; the first mismatch is reported with its names.
class Checker {
  public:
    explicit Checker(std::string_view op, const View& main) : op_(op), type_(main.dtype) {
        require(main.data != nullptr, "the main argument is none");
        require(type_ == DType::fp32 || type_ == DType::fp64 || is_half(type_),
                "not a compute type");
    }

    void require(bool condition, std::string_view what) const {
        if (!condition) bug(__FILE__, __LINE__, fmt::format("{}: {}", op_, what));
    }
    void is(const View& view, std::string_view name, DType dtype, const Shape& shape) const {
        if (view.data && view.dtype == dtype && view.shape == shape) return;
        bug(__FILE__, __LINE__,
            fmt::format("{}: {} is {} {}{}, not {} {}", op_, name, name_of(view.dtype),
                        view.shape.str(), view.data ? "" : " (none)", name_of(dtype), shape.str()));
    }
    // Compute type; statistics and gradients of parameters; what may be left out.
    void typed(const View& view, std::string_view name, const Shape& shape) const {
        is(view, name, type_, shape);
    }
    void stat(const View& view, std::string_view name, const Shape& shape) const {
        is(view, name, stat_type(), shape);
    }
    void maybe_typed(const View& view, std::string_view name, const Shape& shape) const {
        if (view) typed(view, name, shape);
    }
    void maybe_stat(const View& view, std::string_view name, const Shape& shape) const {
        if (view) stat(view, name, shape);
    }
    void rank(const View& view, std::string_view name, int n) const {
        if (view.data && view.shape.rank() == n) return;
        bug(__FILE__, __LINE__,
            fmt::format("{}: {} has shape {}{}, not {} dimensions", op_, name, view.shape.str(),
                        view.data ? "" : " (none)", n));
    }
    void dropout(const Dropout& dropout, i64 rows) const {
        require(dropout.p >= 0.0 && dropout.p < 1.0, "dropout probability outside [0, 1)");
        if (!dropout.on()) return;
        rank(dropout.sample_ids, "dropout.sample_ids", 1);
        const i64 batch = dropout.sample_ids[0];
        is(dropout.sample_ids, "dropout.sample_ids", DType::int64, {batch});
        if (dropout.sample_rows == 0) {
            require(batch > 0 && rows % batch == 0, "rows are not a multiple of the samples");
        } else {
            require(
                dropout.first_row >= 0 && dropout.first_row + rows <= batch * dropout.sample_rows,
                "rows outside of the samples");
        }
    }
    DType stat_type() const { return type_ == DType::fp64 ? DType::fp64 : DType::fp32; }

  private:
    std::string_view op_;
    DType type_;
};

template <typename Args>
void check_attention(const Checker& c, const Args& a) {
    c.rank(a.qkv, "qkv", 3);
    const i64 b = a.qkv[0];
    const i64 t = a.qkv[1];
    c.require(a.n_heads > 0 && a.n_groups > 0 && a.n_heads % a.n_groups == 0,
              "heads are not a multiple of the key-value groups");
    c.require(a.head_dim > 0, "head_dim is not positive");
    c.typed(a.qkv, "qkv", {b, t, (a.n_heads + 2 * a.n_groups) * a.head_dim});
    c.typed(a.out, "out", {b, t, a.n_heads * a.head_dim});
    c.stat(a.lse, "lse", {b, a.n_heads, t});
    if (a.doc_start) c.is(a.doc_start, "doc_start", DType::int32, {b, t});
    c.maybe_stat(a.alibi_slopes, "alibi_slopes", {a.n_heads});
    c.dropout(a.dropout, b);
    if (a.dropout.on()) c.require(a.dropout.sample_ids[0] == b, "one sample id per row of qkv");
}

void check_sum(const Checker& c, const View& x, const View& out) {
    c.stat(x, "x", x.shape);
    c.is(out, "out", DType::fp64, {1});
}

}  // namespace

void check(const EmbeddingForward& a) {
    const Checker c("embedding_forward", a.table);
    c.rank(a.tokens, "tokens", 1);
    c.rank(a.table, "table", 2);
    const i64 n = a.tokens[0];
    c.is(a.tokens, "tokens", DType::int32, {n});
    c.typed(a.out, "out", {n, a.table[1]});
    c.require(bool(a.positions) == bool(a.position_table), "positions without their table");
    if (!a.positions) return;
    c.rank(a.position_table, "position_table", 2);
    c.is(a.positions, "positions", DType::int32, {n});
    c.typed(a.position_table, "position_table", {a.position_table[0], a.table[1]});
}

void check(const EmbeddingBackward& a) {
    const Checker c("embedding_backward", a.dout);
    c.rank(a.tokens, "tokens", 1);
    c.rank(a.dtable, "dtable", 2);
    const i64 n = a.tokens[0];
    c.is(a.tokens, "tokens", DType::int32, {n});
    c.typed(a.dout, "dout", {n, a.dtable[1]});
    c.stat(a.dtable, "dtable", a.dtable.shape);
    c.require(bool(a.positions) == bool(a.dposition_table), "positions without their table");
    if (!a.positions) return;
    c.rank(a.dposition_table, "dposition_table", 2);
    c.is(a.positions, "positions", DType::int32, {n});
    c.stat(a.dposition_table, "dposition_table", {a.dposition_table[0], a.dtable[1]});
}

void check(const LinearForward& a) {
    const Checker c("linear_forward", a.x);
    c.require(!spec::is_gated(a.activation), "the activation is a gated unit");
    c.rank(a.x, "x", 2);
    c.rank(a.w, "w", 2);
    const i64 n = a.x[0];
    const i64 m = a.w[0];
    c.typed(a.w, "w", {m, a.x[1]});
    c.maybe_typed(a.bias, "bias", {m});
    c.typed(a.y, "y", {n, m});
    if (a.activation != Activation::none) c.typed(a.pre_activation, "pre_activation", {n, m});
}

void check(const ActivationForward& a) {
    const Checker c("activation_forward", a.x);
    c.require(!spec::is_gated(a.activation), "the activation is a gated unit");
    c.rank(a.x, "x", 2);
    c.typed(a.y, "y", a.x.shape);
}

void check(const LinearBackwardInput& a) {
    const Checker c("linear_backward_input", a.dy);
    c.require(!spec::is_gated(a.activation), "the activation is a gated unit");
    c.rank(a.dy, "dy", 2);
    c.rank(a.w, "w", 2);
    const i64 n = a.dy[0];
    const i64 k = a.w[1];
    c.typed(a.w, "w", {a.dy[1], k});
    c.typed(a.dx, "dx", {n, k});
    if (a.activation != Activation::none) c.typed(a.pre_activation, "pre_activation", {n, k});
}

void check(const LinearBackwardWeight& a) {
    const Checker c("linear_backward_weight", a.dy);
    c.rank(a.dy, "dy", 2);
    c.rank(a.x, "x", 2);
    const i64 m = a.dy[1];
    c.typed(a.x, "x", {a.dy[0], a.x[1]});
    c.stat(a.dw, "dw", {m, a.x[1]});
    c.maybe_stat(a.dbias, "dbias", {m});
}

void check(const GatedForward& a) {
    const Checker c("gated_forward", a.y);
    c.require(spec::is_gated(a.gate), "the activation is no gated unit");
    c.rank(a.y, "y", 2);
    c.typed(a.x, "x", {a.y[0], 2 * a.y[1]});
}

void check(const GatedBackward& a) {
    const Checker c("gated_backward", a.dy);
    c.require(spec::is_gated(a.gate), "the activation is no gated unit");
    c.rank(a.dy, "dy", 2);
    c.typed(a.x, "x", {a.dy[0], 2 * a.dy[1]});
    c.typed(a.dx, "dx", {a.dy[0], 2 * a.dy[1]});
}

void check(const ResidualNormForward& a) {
    const View& main = a.branch ? a.branch : a.residual;
    const Checker c("residual_norm_forward", main);
    c.rank(main, "branch or residual", 2);
    const i64 n = main[0];
    const i64 width = main[1];
    c.maybe_typed(a.branch, "branch", {n, width});
    c.maybe_typed(a.residual, "residual", {n, width});
    c.maybe_typed(a.sum, "sum", {n, width});
    c.require(bool(a.y) == bool(a.weight), "y and weight go together");
    c.require(a.sum || a.y, "neither sum nor y is wanted");
    c.dropout(a.dropout, n);
    if (!a.y) return;
    c.typed(a.weight, "weight", {width});
    c.maybe_typed(a.bias, "bias", {width});
    c.typed(a.y, "y", {n, width});
    if (a.norm == Norm::layer_norm) c.stat(a.mean, "mean", {n});
    c.stat(a.rstd, "rstd", {n});
}

void check(const ResidualNormBackward& a) {
    const View& main = a.dy ? a.dy : a.dsum_in;
    const Checker c("residual_norm_backward", main);
    c.rank(main, "dy or dsum_in", 2);
    const i64 n = main[0];
    const i64 width = main[1];
    c.maybe_typed(a.dsum_in, "dsum_in", {n, width});
    c.typed(a.dsum, "dsum", {n, width});
    c.maybe_typed(a.dbranch, "dbranch", {n, width});
    c.dropout(a.dropout, n);
    if (!a.dy) return c.require(!a.sum && !a.weight && !a.dweight, "a norm without its gradient");
    c.typed(a.sum, "sum", {n, width});
    c.typed(a.weight, "weight", {width});
    if (a.norm == Norm::layer_norm) c.stat(a.mean, "mean", {n});
    c.stat(a.rstd, "rstd", {n});
    c.stat(a.dweight, "dweight", {width});
    c.maybe_stat(a.dbias, "dbias", {width});
}

void check(const Rotary& a) {
    const Checker c("rotary", a.x);
    c.rank(a.x, "x", 3);
    c.rank(a.angles, "angles", 2);
    c.require(a.head_dim > 0 && a.head_dim % 2 == 0, "head_dim is not positive and even");
    c.require(a.n_heads > 0 && a.n_heads * a.head_dim <= a.x[2], "n_heads out of range");
    c.is(a.positions, "positions", DType::int32, {a.x[0], a.x[1]});
    c.stat(a.angles, "angles", {a.angles[0], a.head_dim});
}

void check(const AttentionForward& a) {
    check_attention(Checker("attention_forward", a.qkv), a);
}

void check(const AttentionBackward& a) {
    const Checker c("attention_backward", a.qkv);
    check_attention(c, a);
    c.typed(a.dout, "dout", a.out.shape);
    c.typed(a.dqkv, "dqkv", a.qkv.shape);
}

void check(const CrossEntropyStats& a) {
    const Checker c("cross_entropy_stats", a.logits);
    c.rank(a.logits, "logits", 2);
    const i64 n = a.logits[0];
    c.is(a.targets, "targets", DType::int32, {n});
    c.require(0 <= a.n_valid && a.n_valid <= a.logits[1], "n_valid out of range");
    c.stat(a.row_max, "row_max", {n});
    c.stat(a.row_sum, "row_sum", {n});
    c.stat(a.target_logit, "target_logit", {n});
}

void check(const CrossEntropyRescale& a) {
    const Checker c("cross_entropy_rescale", a.row_sum);
    c.rank(a.row_sum, "row_sum", 1);
    const Shape rows{a.row_sum[0]};
    c.stat(a.row_sum, "row_sum", rows);
    c.stat(a.row_max, "row_max", rows);
    c.stat(a.local_max, "local_max", rows);
}

void check(const CrossEntropyLoss& a) {
    const Checker c("cross_entropy_loss", a.losses);
    c.rank(a.losses, "losses", 1);
    const Shape rows{a.losses[0]};
    c.stat(a.row_max, "row_max", rows);
    c.stat(a.row_sum, "row_sum", rows);
    c.stat(a.target_logit, "target_logit", rows);
    c.stat(a.losses, "losses", rows);
}

void check(const CrossEntropyBackward& a) {
    const Checker c("cross_entropy_backward", a.logits);
    c.rank(a.logits, "logits", 2);
    const i64 n = a.logits[0];
    c.is(a.targets, "targets", DType::int32, {n});
    c.require(0 <= a.n_valid && a.n_valid <= a.logits[1], "n_valid out of range");
    c.stat(a.row_max, "row_max", {n});
    c.stat(a.row_sum, "row_sum", {n});
    c.stat(a.weight, "weight", {n});
}

void check(const AdamW& a) {
    const Checker c("adamw", a.master);
    c.rank(a.grad, "grad", 1);
    c.rank(a.m, "m", 1);
    const Shape flat{a.grad[0]};
    const Shape held{a.m[0]};
    c.stat(a.master, "master", a.weight ? held : flat);
    c.stat(a.grad, "grad", flat);
    c.stat(a.m, "m", held);
    c.stat(a.v, "v", held);
    if (a.weight) c.is(a.weight, "weight", a.weight.dtype, flat);
    for (const AdamWPart& part : a.parts) {
        c.require(part.flat >= 0 && part.held >= 0 && part.size >= 0 &&
                      part.flat + part.size <= flat[0] && part.held + part.size <= held[0],
                  "a part beyond the parameters");
    }
    c.require(a.step >= 1, "the step counts from 1");
}

void check(const SumSquares& a) {
    check_sum(Checker("sum_squares", a.x), a.x, a.out);
}

void check(const WeightedSum& a) {
    const Checker c("weighted_sum", a.x);
    check_sum(c, a.x, a.out);
    c.stat(a.weight, "weight", a.x.shape);
}

void check(const CountZeros& a) {
    check_sum(Checker("count_zeros", a.x), a.x, a.out);
}

void check(const Fill& a) {
    const Checker c("fill", a.x);
}

void check(const Cast& a) {
    const Checker c("cast", a.x);
    const Checker d("cast", a.y);
    c.require(a.x.shape == a.y.shape, "x and y differ in shape");
}

void check(const Scale& a) {
    const Checker c("scale", a.x);
}

}  // namespace lm::device
