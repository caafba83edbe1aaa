# SPDX-License-Identifier: Apache-2.0
# Run by cmake -P: writes OUTPUT, a C++ file that defines lm::version(), when it would change. In a git checkout
# of SOURCE the text is VERSION+COMMIT, with ".changed" when files differ from the commit. It is the plain VERSION at
# the tag vVERSION and in a tree that is not a checkout.
set(text ${VERSION})
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
    execute_process(
        COMMAND ${GIT} -C ${SOURCE} describe --always --abbrev=10 --dirty=.changed --tags --exclude=*
        OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(
        COMMAND ${GIT} -C ${SOURCE} tag --points-at HEAD --list v${VERSION}
        OUTPUT_VARIABLE tag OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(tag STREQUAL "v${VERSION}" AND NOT commit MATCHES "changed$")
        set(commit "")
    endif()
    if(commit)
        set(text ${VERSION}+${commit})
    endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
// Written by cmake/version.cmake.
#include "base/version.hpp"

namespace lm {

std::string_view version() {
    return "@text@";
}

}  // namespace lm
]] @ONLY)
