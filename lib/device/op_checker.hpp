// SPDX-License-Identifier: Apache-2.0
// The class that checks the arguments of an operation.
#pragma once

#include <fmt/format.h>

#include "base/error.hpp"
#include "device/ops.hpp"

namespace lm::device {

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

}  // namespace lm::device
