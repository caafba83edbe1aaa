// SPDX-License-Identifier: Apache-2.0
// Each operation has its own check function, because a table could not state the relations between
// arguments. The compute type is fp32, bf16 or fp16. Tests with finite differences also use fp64
// with the reference loops; then all floating-point arguments are fp64.
#include "device/op_checks.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace lm::device {
namespace {

// Checks the arguments of one operation. The first mismatch throws Error(bug) (exit 70). Its
// message names the operation and the argument, and prints the expected and the actual value.
class Checker {
  public:
    // For an operation whose first argument is `main`, [...] compute. The dtype of `main` is the
    // compute type of the operation.
    explicit Checker(std::string_view op, const View& main) : op_(op), type_(main.dtype) {
        require(main.data != nullptr, "expected memory for the first argument, got none");
        require(type_ == DType::fp32 || type_ == DType::fp64 || is_half(type_),
                "expected a compute type (fp32, bf16, fp16 or fp64), got {}", name_of(type_));
    }

    // For an operation without a compute type, which works on bits.
    explicit Checker(std::string_view op) : op_(op), type_(DType::fp32) {}

    // When the condition is false, formats the text and throws Error(bug) "OP: TEXT".
    template <typename... Values>
    void require(bool condition, fmt::format_string<Values...> format, Values&&... values) const {
        if (condition) return;
        bug(__FILE__, __LINE__,
            fmt::format("{}: {}", op_, fmt::format(format, std::forward<Values>(values)...)));
    }
    // Checks that `view` has the given shape and dtype: [shape] of any dtype.
    void is(const View& view, std::string_view name, DType dtype, const Shape& shape) const {
        if (view.data && view.dtype == dtype && view.shape == shape) return;
        require(false, "{}: expected {} {}, got {}", name, name_of(dtype), shape.str(),
                text_of(view));
    }
    // typed() checks that `view` is [shape] compute. stat(), for statistics and gradients of
    // parameters, checks that `view` is [shape] fp32, or fp64 in an fp64 operation. maybe_typed()
    // and maybe_stat() also accept an empty view.
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
    // Checks that `view` has n dimensions: [...] of any dtype.
    void rank(const View& view, std::string_view name, int n) const {
        if (view.data && view.shape.rank() == n) return;
        require(false, "{}: expected {} dimensions, got {}", name, n, text_of(view));
    }
    void dropout(const Dropout& dropout, i64 rows) const {
        require(dropout.p >= 0.0 && dropout.p < 1.0,
                "dropout.p: expected a value in [0, 1), got {}", dropout.p);
        if (!dropout.on()) return;
        rank(dropout.sample_ids, "dropout.sample_ids", 1);
        const i64 batch = dropout.sample_ids[0];
        is(dropout.sample_ids, "dropout.sample_ids", DType::int64, {batch});
        if (dropout.sample_rows == 0) {
            require(batch > 0 && rows % batch == 0,
                    "dropout: expected a multiple of {} rows (number of samples), got {} rows",
                    batch, rows);
        } else {
            require(
                dropout.first_row >= 0 && dropout.first_row + rows <= batch * dropout.sample_rows,
                "dropout: expected rows within [0, {}), got [{}, {})", batch * dropout.sample_rows,
                dropout.first_row, dropout.first_row + rows);
        }
    }
    // Checks that two optional arguments a and b, [...] of any dtype, are both present or both
    // absent.
    void together(const View& a, std::string_view name_a, const View& b,
                  std::string_view name_b) const {
        require(bool(a) == bool(b), "{} is {}, but {} is {}", name_a, presence(a), name_b,
                presence(b));
    }
    DType stat_type() const { return type_ == DType::fp64 ? DType::fp64 : DType::fp32; }

  private:
    // view: [...] of any dtype, or empty.
    static std::string text_of(const View& view) {
        return view ? fmt::format("{} {}", name_of(view.dtype), view.shape.str()) : "none";
    }
    static std::string_view presence(const View& view) { return view ? "present" : "none"; }

    std::string_view op_;
    DType type_;
};

// Checks the arguments that cross_entropy_stats and cross_entropy_backward share.
template <typename Args>
void check_logits(const Checker& c, const Args& a) {
    c.rank(a.logits, "logits", 2);
    const i64 n = a.logits[0];
    c.is(a.targets, "targets", DType::int32, {n});
    c.require(0 <= a.n_valid && a.n_valid <= a.logits[1], "n_valid: expected 0 to {}, got {}",
              a.logits[1], a.n_valid);
    c.stat(a.row_max, "row_max", {n});
    c.stat(a.row_sum, "row_sum", {n});
}

template <typename Args>
void check_attention(const Checker& c, const Args& a) {
    c.rank(a.qkv, "qkv", 3);
    const i64 b = a.qkv[0];
    const i64 t = a.qkv[1];
    c.require(a.n_heads > 0 && a.n_groups > 0 && a.n_heads % a.n_groups == 0,
              "n_heads: expected a multiple of {} key-value groups, got {}", a.n_groups, a.n_heads);
    c.require(a.head_dim > 0, "head_dim: expected at least 1, got {}", a.head_dim);
    c.typed(a.qkv, "qkv", {b, t, (a.n_heads + 2 * a.n_groups) * a.head_dim});
    c.typed(a.out, "out", {b, t, a.n_heads * a.head_dim});
    c.stat(a.lse, "lse", {b, a.n_heads, t});
    if (a.doc_start) c.is(a.doc_start, "doc_start", DType::int32, {b, t});
    c.maybe_stat(a.alibi_slopes, "alibi_slopes", {a.n_heads});
    c.dropout(a.dropout, b);
    if (a.dropout.on()) c.is(a.dropout.sample_ids, "dropout.sample_ids", DType::int64, {b});
}

// x: [...] fp32 or fp64; out: [1] fp64.
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
    c.together(a.positions, "positions", a.position_table, "position_table");
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
    if (a.token_order) c.is(a.token_order, "token_order", DType::int32, {n});
    c.typed(a.dout, "dout", {n, a.dtable[1]});
    c.stat(a.dtable, "dtable", a.dtable.shape);
    c.together(a.positions, "positions", a.dposition_table, "dposition_table");
    if (!a.positions) return;
    c.rank(a.dposition_table, "dposition_table", 2);
    c.is(a.positions, "positions", DType::int32, {n});
    if (a.position_order) c.is(a.position_order, "position_order", DType::int32, {n});
    c.stat(a.dposition_table, "dposition_table", {a.dposition_table[0], a.dtable[1]});
}

void check(const LinearForward& a) {
    const Checker c("linear_forward", a.x);
    c.require(!spec::is_gated(a.activation), "activation: expected no gated unit, got {}",
              spec::name_of(a.activation));
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
    c.require(!spec::is_gated(a.activation), "activation: expected no gated unit, got {}",
              spec::name_of(a.activation));
    c.rank(a.x, "x", 2);
    c.typed(a.y, "y", a.x.shape);
}

void check(const LinearBackwardInput& a) {
    const Checker c("linear_backward_input", a.dy);
    c.require(!spec::is_gated(a.activation), "activation: expected no gated unit, got {}",
              spec::name_of(a.activation));
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
    c.require(spec::is_gated(a.gate), "gate: expected a gated unit, got {}", spec::name_of(a.gate));
    c.rank(a.y, "y", 2);
    c.typed(a.x, "x", {a.y[0], 2 * a.y[1]});
}

void check(const GatedBackward& a) {
    const Checker c("gated_backward", a.dy);
    c.require(spec::is_gated(a.gate), "gate: expected a gated unit, got {}", spec::name_of(a.gate));
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
    c.together(a.y, "y", a.weight, "weight");
    c.require(a.sum || a.y, "expected at least one of sum and y, got none");
    c.dropout(a.dropout, n);
    if (!a.y) return;
    c.typed(a.weight, "weight", {width});
    c.maybe_typed(a.bias, "bias", {width});
    c.typed(a.y, "y", {n, width});
    if (spec::is_centred(a.norm)) c.stat(a.mean, "mean", {n});
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
    c.maybe_stat(a.dbranch_bias, "dbranch_bias", {width});
    if (!a.dy) {
        return c.require(!a.sum && !a.weight && !a.dweight,
                         "without dy: expected no sum, weight and dweight");
    }
    c.typed(a.sum, "sum", {n, width});
    c.typed(a.weight, "weight", {width});
    if (spec::is_centred(a.norm)) c.stat(a.mean, "mean", {n});
    c.stat(a.rstd, "rstd", {n});
    c.stat(a.dweight, "dweight", {width});
    c.maybe_stat(a.dbias, "dbias", {width});
}

namespace {

template <typename Args>
void check_head_norm(const Checker& c, const Args& a) {
    c.rank(a.x, "x", 3);
    c.rank(a.query_weight, "query_weight", 1);
    const i64 d = a.query_weight[0];
    c.require(d > 0 && d <= widest_normed_head && a.x[2] % d == 0 && a.n_heads > 0 &&
                  a.n_groups > 0 && (a.n_heads + a.n_groups) * d <= a.x[2],
              "expected {} + {} heads of 1 to {} elements in rows of {} elements, got heads of {} "
              "elements",
              a.n_heads, a.n_groups, widest_normed_head, a.x[2], d);
    c.typed(a.query_weight, "query_weight", {d});
    c.typed(a.key_weight, "key_weight", {d});
}

}  // namespace

void check(const HeadNormForward& a) {
    const Checker c("head_norm_forward", a.x);
    check_head_norm(c, a);
    const Shape width{a.query_weight[0]};
    c.maybe_typed(a.query_bias, "query_bias", width);
    c.maybe_typed(a.key_bias, "key_bias", width);
    c.together(a.query_bias, "query_bias", a.key_bias, "key_bias");
    c.typed(a.y, "y", a.x.shape);
}

void check(const HeadNormBackward& a) {
    const Checker c("head_norm_backward", a.x);
    check_head_norm(c, a);
    const Shape width{a.query_weight[0]};
    c.typed(a.dy, "dy", a.x.shape);
    c.typed(a.dx, "dx", a.x.shape);
    c.stat(a.dquery_weight, "dquery_weight", width);
    c.stat(a.dkey_weight, "dkey_weight", width);
    c.maybe_stat(a.dquery_bias, "dquery_bias", width);
    c.maybe_stat(a.dkey_bias, "dkey_bias", width);
    c.together(a.dquery_bias, "dquery_bias", a.dkey_bias, "dkey_bias");
}

void check(const JointNormSums& a) {
    const Checker c("joint_norm_sums", a.a);
    c.rank(a.a, "a", 3);
    c.typed(a.b, "b", a.a.shape);
    c.require(a.query > 0 && a.key > 0 && a.query + a.key <= a.a[2],
              "expected {} columns of query and {} of key in rows of {}", a.query, a.key, a.a[2]);
    c.maybe_typed(a.query_weight, "query_weight", {a.query});
    c.maybe_typed(a.key_weight, "key_weight", {a.key});
    c.together(a.query_weight, "query_weight", a.key_weight, "key_weight");
    c.stat(a.sums, "sums", {2, a.a[0] * a.a[1]});
}

namespace {

template <typename Args>
void check_joint_norm(const Checker& c, const Args& a) {
    c.rank(a.x, "x", 3);
    c.rank(a.query_weight, "query_weight", 1);
    c.rank(a.key_weight, "key_weight", 1);
    const i64 query = a.query_weight[0];
    const i64 key = a.key_weight[0];
    c.require(query > 0 && key > 0 && query + key <= a.x[2],
              "expected {} columns of query and {} of key in rows of {}", query, key, a.x[2]);
    c.require(a.share > 0 && a.share <= 1, "share: expected a share in (0, 1], got {}", a.share);
    c.typed(a.query_weight, "query_weight", {query});
    c.typed(a.key_weight, "key_weight", {key});
    c.stat(a.squares, "squares", {2, a.x[0] * a.x[1]});
}

}  // namespace

void check(const JointNormForward& a) {
    const Checker c("joint_norm_forward", a.x);
    check_joint_norm(c, a);
    c.typed(a.y, "y", a.x.shape);
}

void check(const JointNormBackward& a) {
    const Checker c("joint_norm_backward", a.x);
    check_joint_norm(c, a);
    c.stat(a.products, "products", a.squares.shape);
    c.typed(a.dy, "dy", a.x.shape);
    c.typed(a.dx, "dx", a.x.shape);
    c.stat(a.dquery_weight, "dquery_weight", a.query_weight.shape);
    c.stat(a.dkey_weight, "dkey_weight", a.key_weight.shape);
}

void check(const Rotary& a) {
    const Checker c("rotary", a.x);
    c.rank(a.x, "x", 3);
    c.rank(a.angles, "angles", 2);
    c.require(a.angles[1] > 0 && a.angles[1] % 2 == 0 && a.angles[1] <= a.head_dim,
              "angles: expected an even number of columns from 2 to {}, got {}", a.head_dim,
              a.angles[1]);
    c.require(a.n_heads > 0 && a.n_heads * a.head_dim <= a.x[2],
              "expected 1 or more heads within rows of {} elements, got {} heads of {} elements",
              a.x[2], a.n_heads, a.head_dim);
    c.is(a.positions, "positions", DType::int32, {a.x[0], a.x[1]});
    c.stat(a.angles, "angles", a.angles.shape);
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
    check_logits(c, a);
    c.stat(a.target_logit, "target_logit", {a.logits[0]});
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
    check_logits(c, a);
    c.stat(a.weight, "weight", {a.logits[0]});
}

void check(const CrossEntropy& a) {
    check(stats_of(a));
    check(loss_of(a));
    check(backward_of(a));
}

void check(const AdamW& a) {
    const Checker c("adamw", a.master);
    c.rank(a.grad, "grad", 1);
    c.rank(a.m, "m", 1);
    const Shape params{a.grad[0]};
    const Shape state{a.m[0]};
    c.stat(a.master, "master", a.weight ? state : params);
    c.stat(a.grad, "grad", params);
    c.stat(a.m, "m", state);
    c.stat(a.v, "v", state);
    if (a.weight) c.is(a.weight, "weight", a.weight.dtype, params);
    for (const AdamWPart& part : a.parts) {
        c.require(part.param_begin >= 0 && part.state_begin >= 0 && part.size >= 0 &&
                      part.param_begin + part.size <= params[0] &&
                      part.state_begin + part.size <= state[0],
                  "expected parts within {} parameters and {} states, got {} elements at parameter "
                  "{} and state {}",
                  params[0], state[0], part.size, part.param_begin, part.state_begin);
    }
    c.require(a.step >= 1, "step: expected at least 1, got {}", a.step);
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

void check(const Fingerprint& a) {
    const Checker c("fingerprint");
    c.rank(a.x, "x", 1);
    c.require(size_of(a.x.dtype) == 2 || size_of(a.x.dtype) == 4,
              "x: expected a dtype of 2 or 4 bytes, got {}", name_of(a.x.dtype));
    c.is(a.out, "out", DType::int64, {1});
}

void check(const Fill& a) {
    const Checker c("fill", a.x);
}

void check(const Cast& a) {
    const Checker c("cast", a.x);
    const Checker d("cast", a.y);
    c.require(a.x.shape == a.y.shape, "y: expected shape {}, got {}", a.x.shape.str(),
              a.y.shape.str());
}

void check(const Scale& a) {
    const Checker c("scale", a.x);
}

}  // namespace lm::device
