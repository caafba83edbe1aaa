# SPDX-License-Identifier: Apache-2.0
# lm_switch(NAME DOC): declares the cache variable NAME, which is AUTO by default, or one of CMake's words for true and false.
# Sets NAME to AUTO, ON or OFF.
function(lm_switch name doc)
    set(${name} AUTO CACHE STRING "${doc}")
    string(TOUPPER "${${name}}" value)
    if(value MATCHES "^(1|ON|YES|TRUE|Y)$")
        set(value ON)
    elseif(value MATCHES "^(0|OFF|NO|FALSE|N)$")
        set(value OFF)
    elseif(NOT value STREQUAL AUTO)
        message(FATAL_ERROR "${name}=${${name}}: expected AUTO, ON or OFF")
    endif()
    set(${name} ${value} PARENT_SCOPE)
endfunction()
