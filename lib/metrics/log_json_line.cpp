// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_json_line.hpp"

#include <cmath>
#include <concepts>
#include <functional>
#include <string>

#include "io/json.hpp"
#include "metrics/host_count.hpp"

namespace lm::metrics {
namespace {

template <typename T>
void read_number(const io::Json& json, const char* key, std::optional<T>& to) {
    const auto at = json.find(key);
    const bool fits = std::integral<T> ? at != json.end() && at->is_number_integer()
                                       : at != json.end() && at->is_number();
    constexpr auto most = static_cast<T>(largest_count);
    if (fits && at->get<T>() >= 0 && at->get<T>() <= most) to = at->get<T>();
}

// Returns the number of hosts in the member "nodes", a list as Slurm writes it; 0 without this
// member.
i64 n_hosts_of(const io::Json& json) {
    const auto at = json.find("nodes");
    if (at == json.end() || !at->is_string()) return 0;
    return count_hosts(at->get_ref<const std::string&>());
}

// Parses an event of --log-json: a start, a resume, a save, a stop, ...
void read_json_event(std::string_view line, LogLine& out) {
    const io::Json json = io::json_or_null(line);
    if (!json.is_object()) return;
    read_number(json, "time", out.unix_time_s);
    const auto at = json.find("kind");
    if (at == json.end() || !at->is_string()) return;
    const auto& kind = at->get_ref<const std::string&>();
    std::optional<i64> iteration;
    read_number(json, "iteration", iteration);
    if (kind == "start") {
        out.kind = LogLine::Kind::start;
        out.n_nodes = n_hosts_of(json);
    } else if (kind == "resume" && iteration) {
        out.loaded_iteration = *iteration;
        out.kind = LogLine::Kind::loaded;
    } else if (!out.unix_time_s) {
        return;
    } else if (kind == "stop" || kind == "error") {
        out.kind = LogLine::Kind::stop;
        if (kind == "stop") out.stopped_after = iteration;
    } else if (kind == "validation") {
        out.kind = LogLine::Kind::validation;
        read_number(json, "elapsed_s", out.busy_s);
    } else if (kind == "save") {
        out.kind = LogLine::Kind::saved;
        read_number(json, json.contains("blocked_s") ? "blocked_s" : "elapsed_s", out.busy_s);
    } else {
        out.kind = LogLine::Kind::clock;
    }
}

// Parses a logged iteration of --log-json.
void read_json_step(std::string_view line, LogLine& out) {
    const io::Json json = io::json_or_null(line);
    std::optional<i64> iteration, total;
    std::optional<double> step_s;
    if (json.is_object()) {
        read_number(json, "iteration", iteration);
        read_number(json, "total_iterations", total);
        read_number(json, "step_s", step_s);
    }
    if (!iteration || !total || !step_s || !std::isfinite(*step_s) || *step_s < 0) {
        ++out.n_invalid;
        return;
    }
    LoggedIteration& to = out.iteration;
    to.iteration = *iteration;
    to.total_iterations = *total;
    to.step_s = *step_s;
    read_number(json, "consumed_samples", to.consumed_samples);
    read_number(json, "consumed_tokens", to.consumed_tokens);
    read_number(json, "global_batch_size", to.global_batch);
    read_number(json, "flops_per_s", to.flops_per_s);
    read_number(json, "lm_loss", to.loss);
    read_number(json, "grad_norm", to.grad_norm);
    read_number(json, "learning_rate", to.learning_rate);
    std::optional<i64> skipped, nan;
    read_number(json, "skipped_iterations", skipped);
    read_number(json, "nan_iterations", nan);
    to.skipped = skipped.value_or(0);
    to.nan = nan.value_or(0);
    read_number(json, "time", to.unix_time_s);
    to.digest = std::hash<std::string_view>{}(line);
    out.kind = LogLine::Kind::iteration;
}

}  // namespace

void read_json_line(std::string_view line, LogLine& out) {
    if (line.find(R"("kind":"step")") != line.npos) {
        read_json_step(line, out);
    } else {
        read_json_event(line, out);
    }
}

}  // namespace lm::metrics
