// SPDX-License-Identifier: Apache-2.0
// What most tests include, for LM_PRECOMPILED_HEADERS.
#include "precompiled.hpp"
#include "support/catch.hpp"
