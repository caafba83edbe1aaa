// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as /proc/PID/maps, /proc/sysvipc/shm, /proc/PID/cgroup or a list of hosts
// are parsed or refused.
#include <string>
#include <string_view>

#include "base/host_list.hpp"
#include "cluster/limits.hpp"
#include "cluster/processes.hpp"
#include "cluster/shared_memory.hpp"

using namespace lm;
using namespace lm::cluster;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto line = parse_maps_line(text.substr(0, text.find('\n')));
    if (line && (line->bytes < 0 || line->file_offset < 0 || line->file_offset + line->bytes < 0))
        __builtin_trap();
    for (const SystemVLine& entry : parse_system_v(text)) {
        if (!entry.segment.system_v || entry.segment.name.empty()) __builtin_trap();
    }
    const CgroupPaths paths = parse_cgroup(text);
    if (paths.v2.size() > size || paths.v1_memory.size() > size) __builtin_trap();
    if (const auto hosts = expand_hosts(text.substr(0, 200)); hosts && !hosts->empty())
        host_list(*hosts);
    return 0;
}
