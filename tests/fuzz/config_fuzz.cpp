// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as the config.json and the index of a model of Hugging Face, and as a
// DeepSpeed configuration. Each reader succeeds or throws Error(failure) or Error(usage) that names
// the file.
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "cli/options.hpp"
#include "config/deepspeed.hpp"
#include "config/train_flags.hpp"
#include "convert/hf/config_json.hpp"
#include "convert/hf/files.hpp"
#include "fuzz_files.hpp"

namespace {

using namespace lm;

// Returns the flags of a command line without options.
const config::TrainFlags& no_flags() {
    static config::TrainFlags flags;
    static cli::Options options("lm-train", "");
    static const bool declared = (config::add_train_options(options, flags), true);
    (void)declared;
    return flags;
}

template <typename F>
void attempt(const F& f) {
    try {
        f();
    } catch (const Error& error) {
        const bool known = error.code() == Exit::failure || error.code() == Exit::usage;
        const bool names_file = std::string_view(error.what()).find(fuzz::directory()) == 0;
        if (!known || !names_file) std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::string path = fuzz::put("config.json", text);
    fuzz::put("model.safetensors.index.json", text);
    attempt([&] { (void)convert::hf_model(text, path); });
    attempt([&] { (void)convert::HfTensors::open(fuzz::directory()); });
    attempt([&] {
        config::TrainFlags flags = no_flags();
        flags.deepspeed_config = path;
        config::apply_deepspeed(flags);
    });
    return 0;
}
