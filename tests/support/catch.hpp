// SPDX-License-Identifier: Apache-2.0
// Catch2 2 or 3, whichever is installed, with version 3's names of matchers, in the global
// namespace like Approx of version 2. A program with a main function or a listener of its own
// defines CATCH_CONFIG_RUNNER or CATCH_CONFIG_EXTERNAL_INTERFACES first, which only version 2
// reads.
#pragma once

#include "support/message.hpp"

#if __has_include(<catch2/catch_all.hpp>)

#include <catch2/catch_all.hpp>

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Listener = Catch::EventListenerBase;

#else

#include <catch2/catch.hpp>

#ifdef CATCH_CONFIG_EXTERNAL_INTERFACES
using Listener = Catch::TestEventListenerBase;
#endif

inline auto ContainsSubstring(const std::string& text) {
    return Catch::Matchers::Contains(text);
}

#endif

using Catch::Matchers::EndsWith;
using Catch::Matchers::Predicate;
using Catch::Matchers::StartsWith;

// Matches a message that has these parts in this order.
template <typename... Parts>
auto HasInOrder(const Parts&... parts) {
    const std::vector<std::string> all = {std::string(parts)...};
    std::string description = "has in this order";
    for (const std::string& part : all) description += " \"" + part + "\"";
    return Predicate<std::string>(
        [all](const std::string& message) { return lm::test::has_in_order(message, all); },
        description);
}
