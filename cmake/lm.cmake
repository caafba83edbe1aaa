# SPDX-License-Identifier: Apache-2.0
# Compile options shared by every target, and the helpers that declare libraries, commands and tests.

include(lm_switch)

add_library(lm_options INTERFACE)
# Options of the host compiler; lib/cuda/CMakeLists.txt has nvcc's.
function(lm_host_options)
    target_compile_options(lm_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${ARGN}>")
endfunction()
lm_host_options(-Wall -Wextra -Wnon-virtual-dtor)
# A switch over an enum of ours has no default, so that a new enumerator is an error at each place that must treat it.
lm_host_options(-Werror=switch)
# A function is declared in a header or local to its file.
lm_host_options(-Wmissing-declarations)
# With LM_UNITY a local name may also be a name of another file in the same translation unit.
if(NOT LM_UNITY)
    lm_host_options(-Wshadow)
else()
    lm_host_options($<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>)
endif()
# Designated initialisers name only the members that differ from the defaults.
lm_host_options(-Wno-missing-field-initializers)
# Bitwise reproducibility: no implicit contraction into FMA, no reassociation.
lm_host_options(-ffp-contract=off)
# g++ 12 warns falsely about "literal" + std::string at -O3 (GCC bug 105651).
lm_host_options($<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Recent clangs warn of std::stable_sort in the headers of g++ 12.
lm_host_options($<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
if(LM_WERROR)
    lm_host_options(-Werror)
endif()
if(LM_SANITIZE)
    lm_host_options(-fsanitize=${LM_SANITIZE} -fno-omit-frame-pointer)
    # GCC's manual: -fsanitize= may cause false reports of uninitialized variables.
    lm_host_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_link_options(lm_options INTERFACE -fsanitize=${LM_SANITIZE})
endif()
target_include_directories(lm_options INTERFACE ${CMAKE_SOURCE_DIR}/lib ${CMAKE_BINARY_DIR}/generated)

# lm_unity(TARGET): compiles the sources of each folder together, at most 10 in one translation unit, with LM_UNITY. The
# headers of fmt, nlohmann/json and the standard library are read and their templates compiled once for all of them: 9.5 s of
# CPU instead of 17.4 s for ten sources of lib/config, 6.1 s instead of 9.0 s for eight of lib/cost. lib/cpu is compiled file
# by file: its loops keep the inlining that was measured. So are x86 folders, whose files select instruction sets; lib/plot,
# whose charts name their own margins; and verbs, each of which has its Args and its run().
# The paths in the units are relative, so that a compiler cache serves every clone.
function(lm_unity target)
    if(NOT LM_UNITY)
        return()
    endif()
    get_target_property(sources ${target} SOURCES)
    get_target_property(base ${target} SOURCE_DIR)
    foreach(source IN LISTS sources)
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${base})
        cmake_path(GET source PARENT_PATH folder)
        get_source_file_property(options ${source} COMPILE_OPTIONS)
        get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
        if(NOT source MATCHES "\\.cpp$" OR source MATCHES "_verb\\.cpp$" OR options OR definitions
           OR folder MATCHES "/x86$|/lib/(cpu|plot)$|/generated$")
            list(APPEND units ${source})
            continue()
        endif()
        cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE id)
        list(APPEND files_${id} ${source})
        list(APPEND ids ${id})
    endforeach()
    list(REMOVE_DUPLICATES ids)
    foreach(id IN LISTS ids)
        list(LENGTH files_${id} n)
        math(EXPR n_groups "(${n} + 9) / 10")
        math(EXPR each "(${n} + ${n_groups} - 1) / ${n_groups}")
        set(i 0)
        set(first 0)
        while(first LESS n)
            set(unit ${CMAKE_BINARY_DIR}/unity/${target}/${id}_${i}.cpp)
            cmake_path(GET unit PARENT_PATH folder)
            list(SUBLIST files_${id} ${first} ${each} files)
            set(text)
            foreach(file IN LISTS files)
                cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${folder})
                string(APPEND text "#include \"${file}\"\n")
            endforeach()
            file(CONFIGURE OUTPUT ${unit} CONTENT "${text}" @ONLY)
            list(APPEND units ${unit})
            math(EXPR first "${first} + ${each}")
            math(EXPR i "${i} + 1")
        endwhile()
    endforeach()
    set_target_properties(${target} PROPERTIES SOURCES "${units}")
endfunction()

set(LM_PRIVATE_LIBDIR ${CMAKE_INSTALL_LIBDIR}/lm-utils)
# lm_rpath(TARGET DIRS...): sets one library search path for the build tree and the installation. With separate paths, CMake
# leaves an empty element in the path of the build tree, and the loader searches the current directory for an empty element. The
# path also has the directories of linked libraries that are outside the system's library directories.
function(lm_rpath target)
    set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH_USE_LINK_PATH ON
                                               INSTALL_RPATH "${ARGN}")
endfunction()

# lm_library(NAME LAYERS a b c [EXCEPT d/e...] LIBS x y): one shared library from the sources of some layers, with
# their subfolders, except the folders of plugins.
function(lm_library name)
    cmake_parse_arguments(arg "" "" "LAYERS;EXCEPT;LIBS" ${ARGN})
    set(sources)
    foreach(layer IN LISTS arg_LAYERS)
        file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lib/${layer}/*.cpp)
        list(APPEND sources ${files})
    endforeach()
    foreach(folder IN LISTS arg_EXCEPT)
        list(FILTER sources EXCLUDE REGEX "/lib/${folder}/")
    endforeach()
    add_library(${name} SHARED ${sources})
    target_link_libraries(${name} PUBLIC lm_options ${arg_LIBS})
    lm_unity(${name})
    lm_rpath(${name} "$ORIGIN")
    install(TARGETS ${name} LIBRARY DESTINATION ${LM_PRIVATE_LIBDIR})
endfunction()

# lm_plugin(NAME DIR d LIBS x): a library from lib/d/*.cpp that is opened at run time, installed with the other libraries.
function(lm_plugin name)
    cmake_parse_arguments(arg "" "DIR" "LIBS" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lib/${arg_DIR}/*.cpp)
    add_library(${name} MODULE ${sources})
    target_link_libraries(${name} PRIVATE ${arg_LIBS})
    set_target_properties(${name} PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${name} LIBRARY DESTINATION ${LM_PRIVATE_LIBDIR})
endfunction()

# lm_command(NAME LIBS x): the program lm-NAME from cmd/NAME/*.cpp.
function(lm_command name)
    cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmd/${name}/*.cpp)
    add_executable(lm-${name} ${sources})
    lm_unity(lm-${name})
    target_link_libraries(lm-${name} PRIVATE ${arg_LIBS})
    set_target_properties(lm-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
    lm_rpath(lm-${name} "$ORIGIN/../${LM_PRIVATE_LIBDIR}" "$ORIGIN/../lib")
    install(TARGETS lm-${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    lm_manual(lm-${name})
endfunction()

# lm_in_kit(PROGRAM): makes PROGRAM find liblm*.so from bin, bench or tests/... of the archive gpu_kit.
function(lm_in_kit program)
    set_target_properties(
        ${program} PROPERTIES BUILD_RPATH "$ORIGIN/../${LM_PRIVATE_LIBDIR};$ORIGIN/../../${LM_PRIVATE_LIBDIR}")
endfunction()

# lm_manual(PROGRAM): builds its man page, if man/PROGRAM.1.in exists, and its completions for bash, zsh and fish. All come
# from the option table, so the build runs the program.
function(lm_manual program)
    set(outputs)
    set(source ${CMAKE_SOURCE_DIR}/man/${program}.1.in)
    set(compose ${CMAKE_SOURCE_DIR}/cmake/compose_man.cmake)
    if(EXISTS ${source})
        set(page ${CMAKE_BINARY_DIR}/man/${program}.1)
        add_custom_command(
            OUTPUT ${page}
            COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${program}> -D SOURCE=${source}
                    -D PAGE=${page} -D VERSION=${PROJECT_VERSION} -P ${compose}
            DEPENDS ${program} ${source} ${compose}
            COMMENT "Composing ${program}.1"
            VERBATIM)
        install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
        list(APPEND outputs ${page})
    endif()
    set(completions ${CMAKE_BINARY_DIR}/completions)
    add_custom_command(
        OUTPUT ${completions}/${program} ${completions}/_${program} ${completions}/${program}.fish
        COMMAND ${CMAKE_COMMAND} -E make_directory ${completions}
        COMMAND ${program} --generate-completion bash > ${completions}/${program}
        COMMAND ${program} --generate-completion zsh > ${completions}/_${program}
        COMMAND ${program} --generate-completion fish > ${completions}/${program}.fish
        DEPENDS ${program}
        COMMENT "Writing the completions of ${program}"
        VERBATIM)
    install(FILES ${completions}/${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${completions}/_${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${completions}/${program}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
    list(APPEND outputs ${completions}/${program})
    add_custom_target(${program}-manual ALL DEPENDS ${outputs})
endfunction()

add_custom_target(unit_tests)  # builds all unit tests and nothing else

# lm_unit_test(LAYER LIBS x [ARGS a...]): the Catch2 program test_LAYER from tests/LAYER/*.cpp, one ctest entry.
function(lm_unit_test layer)
    cmake_parse_arguments(arg "" "" "LIBS;ARGS" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${layer}/*.cpp)
    add_executable(test_${layer} ${sources})
    target_link_libraries(test_${layer} PRIVATE ${arg_LIBS} Catch2::Catch2WithMain)
    # Compiling the tests takes longer than running them.
    target_compile_options(test_${layer} PRIVATE $<$<CONFIG:Release>:-O1>)
    target_include_directories(test_${layer} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    lm_unity(test_${layer})
    target_compile_definitions(
        test_${layer} PRIVATE LM_TEST_DIR="${CMAKE_SOURCE_DIR}/tests" LM_SHARE_DIR="${CMAKE_SOURCE_DIR}/share")
    if(LM_SANITIZE)
        target_compile_definitions(test_${layer} PRIVATE LM_SANITIZED)
    endif()
    add_dependencies(unit_tests test_${layer})
    add_test(NAME unit.${layer} COMMAND test_${layer} ${arg_ARGS})
    set_tests_properties(unit.${layer} PROPERTIES LABELS unit)
endfunction()

# lm_script_test(FILE [LABELS l] [TIMEOUT s] [LOCK name]): an end-to-end test in bash; the build directory is $1.
# Exit code 77 means skipped, with the reason on the last line.
function(lm_script_test file)
    cmake_parse_arguments(arg "" "TIMEOUT;LOCK" "LABELS" ${ARGN})
    get_filename_component(stem ${file} NAME_WE)
    add_test(NAME e2e.${stem} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${CMAKE_BINARY_DIR})
    if(NOT arg_LABELS)
        set(arg_LABELS e2e)
    endif()
    set_tests_properties(e2e.${stem} PROPERTIES LABELS "${arg_LABELS}" SKIP_RETURN_CODE 77)
    if(arg_TIMEOUT)
        # The longest tests start first, so that all jobs of ctest end together.
        set_tests_properties(e2e.${stem} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT})
    endif()
    if(arg_LOCK)
        set_tests_properties(e2e.${stem} PROPERTIES RESOURCE_LOCK ${arg_LOCK})
    endif()
endfunction()

# lm_live_test(FILE): a comparison with live libraries in Python (tests/live/run.sh), for check.sh --all only.
function(lm_live_test file)
    get_filename_component(stem ${file} NAME_WE)
    add_test(NAME live.${stem} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/live/run.sh ${stem}.py ${CMAKE_BINARY_DIR})
    set_tests_properties(live.${stem} PROPERTIES LABELS live SKIP_RETURN_CODE 77 TIMEOUT 900 COST 900)
endfunction()

# lm_style_test(FILE): a check of the sources themselves.
function(lm_style_test file)
    get_filename_component(stem ${file} NAME_WE)
    add_test(NAME style.${stem} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    set_tests_properties(style.${stem} PROPERTIES LABELS style)
endfunction()
