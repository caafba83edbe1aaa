// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/datatypes.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "comm/reduce.hpp"

namespace lm::comm {
namespace {

// The MPI_User_function that computes inout[i] = in[i] op inout[i].
template <DType dtype, Reduction reduction>
void combine(void* in, void* inout, int* n, MPI_Datatype*) {
    const void* const inputs[] = {in, inout};
    for (i64 begin = 0; begin < *n; begin += reduce_block) {
        reduce(dtype, reduction, inputs, begin, std::min<i64>(reduce_block, *n - begin),
               static_cast<std::byte*>(inout) + begin * size_of(dtype));
    }
}

template <DType dtype, Reduction reduction>
MPI_Op make_op() {
    MPI_Op op = MPI_OP_NULL;
    check_mpi(MPI_Op_create(combine<dtype, reduction>, 1, &op), "MPI_Op_create");
    return op;
}

}  // namespace

void check_mpi(int code, const char* what) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    run_error(what, "{}", std::string(text, static_cast<size_t>(length)));
}

MPI_Datatype mpi_type(DType dtype) {
    switch (dtype) {
        case DType::uint8:
            return MPI_UINT8_T;
        case DType::int32:
            return MPI_INT32_T;
        case DType::int64:
            return MPI_INT64_T;
        case DType::fp32:
            return MPI_FLOAT;
        case DType::fp64:
            return MPI_DOUBLE;
        case DType::uint16:
        case DType::bf16:
        case DType::fp16:
            break;
    }
    return MPI_UINT16_T;
}

MpiOps::MpiOps()
    : sum_bf16_(make_op<DType::bf16, Reduction::sum>()),
      sum_fp16_(make_op<DType::fp16, Reduction::sum>()),
      max_bf16_(make_op<DType::bf16, Reduction::max>()),
      max_fp16_(make_op<DType::fp16, Reduction::max>()),
      max_fp32_(make_op<DType::fp32, Reduction::max>()),
      max_fp64_(make_op<DType::fp64, Reduction::max>()) {}

MPI_Op MpiOps::of(DType dtype, Reduction reduction) const {
    const bool sum = reduction == Reduction::sum;
    switch (dtype) {
        case DType::bf16:
            return sum ? sum_bf16_ : max_bf16_;
        case DType::fp16:
            return sum ? sum_fp16_ : max_fp16_;
        case DType::fp32:
            return sum ? MPI_SUM : max_fp32_;
        case DType::fp64:
            return sum ? MPI_SUM : max_fp64_;
        case DType::uint8:
        case DType::uint16:
        case DType::int32:
        case DType::int64:
            break;
    }
    return sum ? MPI_SUM : MPI_MAX;
}

}  // namespace lm::comm
