// SPDX-License-Identifier: Apache-2.0
#include "cost/hardware.hpp"

#include <map>

#include "base/error.hpp"
#include "gpus.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cost;

namespace {

// Returns the a100's description with `from` replaced.
std::string changed(const std::string& from, const std::string& to) {
    std::string text = io::read_file(std::string(LM_SHARE_DIR) + "/hardware/a100.txt");
    return text.replace(text.find(from), from.size(), to);
}

std::string message_of(const std::string& text) {
    try {
        parse_hardware("x.txt", text);
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

}  // namespace

TEST_CASE("every shared description is complete") {
    for (const char* name : {"a100", "a100-40g", "a100-efa", "h100", "h200", "v100", "cpu"}) {
        INFO(name);
        const Hardware hardware = shared_hardware(name);
        CHECK(hardware.name == name);
        CHECK(hardware.matmul_flops > hardware.fp32_flops);
        CHECK(hardware.node.bytes_per_s >=
              hardware.network.bytes_per_s / static_cast<double>(hardware.gpus_per_node));
    }
    const Hardware a100 = shared_hardware("a100");
    CHECK(a100.flops(DType::bf16) == 312e12);
    CHECK(a100.flops(DType::fp32) == 19.5e12);
    CHECK(a100.network.bytes_per_s == 100e9);
    CHECK(a100.nics == 4);
}

TEST_CASE("the memory of a GPU is what a process can use") {
    const std::map<std::string, double> gib{{"a100", 79.15},    {"a100-efa", 79.15},
                                            {"a100-40g", 39.4}, {"h100", 79.1},
                                            {"h200", 139.8},    {"v100", 31.7}};
    for (const auto& [name, size] : gib) {
        INFO(name);
        CHECK(static_cast<double>(shared_hardware(name).memory_bytes) / (1 << 30) ==
              Approx(size).margin(0.01));
    }
}

TEST_CASE("a core of the CPU node has two 256-bit pipes for fused multiply and add") {
    const Hardware cpu = shared_hardware("cpu");
    CHECK(cpu.fp32_flops / static_cast<double>(cpu.sms) / 2.4e9 == Approx(32).epsilon(0.01));
    CHECK(cpu.matmul_flops / static_cast<double>(cpu.sms) / 2.4e9 == Approx(64).epsilon(0.01));
}

TEST_CASE("every shared network is complete") {
    const auto network = [](const std::string& name) {
        const std::string path = std::string(LM_SHARE_DIR) + "/hardware/networks/" + name + ".txt";
        return parse_network(path, io::read_file(path));
    };
    CHECK(network("hdr").bytes_per_s == 25e9);
    CHECK(network("ndr").bytes_per_s == 50e9);
    CHECK(network("omni-path").bytes_per_s == 12.5e9);
    CHECK(network("efa").bytes_per_s == 12.5e9);
    // The descriptions of nodes agree with those of their links.
    CHECK(shared_hardware("a100").network.bytes_per_s == 4 * network("hdr").bytes_per_s);
    CHECK(shared_hardware("h100").network.bytes_per_s == 8 * network("ndr").bytes_per_s);
    CHECK(shared_hardware("v100").network.bytes_per_s == 4 * network("omni-path").bytes_per_s);
    CHECK(shared_hardware("v100").network.latency_s == network("omni-path").latency_s);
    CHECK(shared_hardware("a100-efa").network.bytes_per_s == 4 * network("efa").bytes_per_s);
}

TEST_CASE("errors of a description name the line and the key") {
    CHECK_THAT(message_of(changed("sms ", "smx ")), HasInOrder("x.txt:4: ", "'smx'"));
    CHECK_THAT(message_of(changed("108 ", "1o8 ")), ContainsSubstring("x.txt:4: sms: "));
    CHECK_THAT(message_of(changed("312e12", "312 ")),
               ContainsSubstring("x.txt:2: matmul_flops 312 "));
    CHECK_THAT(message_of(changed("# NVIDIA A100 white paper", "")),
               HasInOrder("x.txt:4: sms ", "source"));
    CHECK_THAT(message_of(changed("fp32_flops ", "sms 108 # again\n#")),
               HasInOrder("x.txt:5: duplicate ", "'sms'"));
    CHECK_THAT(message_of(""), HasInOrder("x.txt: missing ", "'matmul_flops'"));
}
