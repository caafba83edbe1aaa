// SPDX-License-Identifier: Apache-2.0
// The MPI types and reductions for the types of lm-utils, and MPI errors as lm::Error.
#pragma once

#include <mpi.h>

#include <string>

#include "comm/operation.hpp"

namespace lm::comm {

// Throws Error(failure) when `code` is an error of the MPI call `what`, which the message names.
void check_mpi(int code, const char* what);

MPI_Datatype mpi_type(DType dtype);

// Reductions that MPI does not have: sums of 16-bit floats (each addition in fp32, then rounded),
// and maxima that propagate NaN. Construct it once, after MPI_Init.
class MpiOps {
  public:
    MpiOps();
    // Returns the MPI operation for elements of `dtype`.
    MPI_Op of(DType dtype, Reduction reduction) const;

  private:
    MPI_Op sum_bf16_, sum_fp16_, max_bf16_, max_fp16_, max_fp32_, max_fp64_;
};

}  // namespace lm::comm
