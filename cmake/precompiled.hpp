// SPDX-License-Identifier: Apache-2.0
// The headers that most sources include, precompiled with LM_PRECOMPILED_HEADERS.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <vector>
