# SPDX-License-Identifier: Apache-2.0
# cmake -D PROGRAM=.. -D SOURCE=lm-x.1.in -D PAGE=lm-x.1 -D VERSION=1.2.3 -P compose_man.cmake
# Replaces @OPTIONS@ and @EXIT_STATUS@ in SOURCE by the sections that PROGRAM generates from its option table, and
# @PROJECT_VERSION@ by VERSION.

function(section variable argument)
    execute_process(COMMAND ${PROGRAM} ${argument} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
    set(${variable} "${text}" PARENT_SCOPE)
endfunction()

section(options --generate-man-options)
section(exit_status --generate-man-exit-status)
file(READ ${SOURCE} page)
foreach(marker OPTIONS EXIT_STATUS)
    string(FIND "${page}" "@${marker}@\n" place)
    if(place EQUAL -1)
        message(FATAL_ERROR "${SOURCE}: no line @${marker}@")
    endif()
endforeach()
string(REPLACE "@OPTIONS@\n" "${options}" page "${page}")
string(REPLACE "@EXIT_STATUS@\n" "${exit_status}" page "${page}")
string(REPLACE "@PROJECT_VERSION@" "${VERSION}" page "${page}")
file(WRITE ${PAGE} "${page}")
