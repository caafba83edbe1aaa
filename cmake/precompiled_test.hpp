// SPDX-License-Identifier: Apache-2.0
// The headers that most tests include, precompiled with LM_PRECOMPILED_HEADERS.
#include "precompiled.hpp"
#include "support/catch.hpp"
