// SPDX-License-Identifier: Apache-2.0
#include "metrics/record.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <string_view>
#include <utility>

#include "io/json.hpp"
#include "metrics/log_labels.hpp"

namespace lm::metrics {
namespace {

template <typename T>
void put_if(io::OrderedJson& json, const char* key, const std::optional<T>& value) {
    if (value) json[key] = *value;
}

void put_origin(io::OrderedJson& json, const RunOrigin& origin) {
    if (!origin.job.empty()) json["job"] = origin.job;
    if (!origin.nodes.empty()) json["nodes"] = origin.nodes;
    put_if(json, "generation", origin.generation);
}

// Appends fields " LABEL: VALUE |" to the start of a log line.
class LineWriter {
  public:
    explicit LineWriter(std::string start) : text_(std::move(start)) {}
    template <typename T>
    void add(std::string_view label, const char* format, const T& value) {
        fmt::format_to(std::back_inserter(text_), " {}: ", label);
        fmt::format_to(std::back_inserter(text_), fmt::runtime(format), value);
        text_ += " |";
    }
    // Adds nothing when there is no value.
    template <typename T>
    void add(std::string_view label, const char* format, const std::optional<T>& value) {
        if (value) add(label, format, *value);
    }
    const std::string& text() const { return text_; }

  private:
    std::string text_;
};

// Returns the object as one line of text. Replaces bytes that are not UTF-8.
std::string line_of(const io::OrderedJson& json) {
    return json.dump(-1, ' ', false, io::OrderedJson::error_handler_t::replace);
}

}  // namespace

double perplexity(double loss) {
    return std::exp(std::min(20.0, loss));
}

std::string log_line(const StepRecord& r) {
    LineWriter line(fmt::format(" iteration {:8}/{:8} |", r.iteration, r.total_iterations));
    line.add(labels::consumed_samples, "{:12}", r.consumed_samples);
    line.add(labels::consumed_tokens, "{:12}", r.consumed_tokens);
    line.add(labels::elapsed_s, "{:.2f}", r.step_s);
    line.add(labels::learning_rate, "{:.3E}", r.learning_rate);
    line.add(labels::global_batch, "{:5}", r.global_batch);
    line.add(labels::loss, "{:.6E}", r.loss);
    line.add("loss scale", "{:.1f}", r.loss_scale);
    line.add(labels::grad_norm, "{:.3f}", r.grad_norm);
    line.add("num zeros", "{:.1f}", r.num_zeros);
    line.add("params norm", "{:.3f}", r.params_norm);
    line.add("curriculum seqlen", "{:5}", r.seq_length);
    line.add(labels::skipped, "{:3}", r.skipped_iterations);
    line.add(labels::nan, "{:3}", r.nan_iterations);
    line.add(labels::samples_per_s, "{:.3f}", r.samples_per_s);
    line.add(labels::tflops, "{:.2f}", r.flops_per_s / 1e12);
    line.add("MFU", "{:.2f}", r.mfu);
    line.add("tokens per second", "{:.1f}", r.tokens_per_s);
    return line.text();
}

std::string megatron_lm_line(const StepRecord& r, bool throughput) {
    const double seconds = std::floor(r.unix_time_s);
    LineWriter line(fmt::format(" [{:%Y-%m-%d %H:%M:%S}.{:06}] iteration {:8}/{:8} |",
                                fmt::localtime(static_cast<std::time_t>(seconds)),
                                static_cast<i64>((r.unix_time_s - seconds) * 1e6), r.iteration,
                                r.total_iterations));
    line.add(labels::consumed_samples, "{:12}", r.consumed_samples);
    line.add(labels::elapsed_ms, "{:.1f}", r.step_s * 1e3);
    if (throughput) line.add(labels::throughput, "{:.1f}", r.flops_per_s / 1e12);
    line.add(labels::learning_rate, "{:.6E}", r.learning_rate);
    line.add(labels::global_batch, "{:5}", r.global_batch);
    line.add(labels::loss, "{:.6E}", r.loss);
    line.add("loss scale", "{:.1f}", r.loss_scale.value_or(1.0));
    line.add(labels::grad_norm, "{:.3f}", r.grad_norm);
    line.add("num zeros", "{:.1f}", r.num_zeros);
    line.add("params norm", "{:.3f}", r.params_norm);
    line.add(labels::skipped, "{:3}", r.skipped_iterations);
    line.add(labels::nan, "{:3}", r.nan_iterations);
    return line.text();
}

std::string validation_line(const ValidationRecord& r) {
    return fmt::format(" {} loss at {} | lm loss value: {:.6E} | lm loss PPL: {:.6E} | ", r.name,
                       r.when, r.loss, perplexity(r.loss));
}

std::string validation_block(const ValidationRecord& r) {
    const std::string line = validation_line(r);
    const std::string dashes(line.size() + 1, '-');
    return dashes + "\n" + line + "\n" + dashes;
}

std::string to_json(const StepRecord& r) {
    io::OrderedJson json;
    json["kind"] = "step";
    json["time"] = r.unix_time_s;
    json["iteration"] = r.iteration;
    json["total_iterations"] = r.total_iterations;
    json["consumed_samples"] = r.consumed_samples;
    json["consumed_tokens"] = r.consumed_tokens;
    json["step_s"] = r.step_s;
    json["learning_rate"] = r.learning_rate;
    json["global_batch_size"] = r.global_batch;
    put_if(json, "lm_loss", r.loss);
    put_if(json, "loss_scale", r.loss_scale);
    put_if(json, "grad_norm", r.grad_norm);
    put_if(json, "num_zeros", r.num_zeros);
    put_if(json, "params_norm", r.params_norm);
    put_if(json, "seq_length", r.seq_length);
    json["skipped_iterations"] = r.skipped_iterations;
    json["nan_iterations"] = r.nan_iterations;
    json["samples_per_s"] = r.samples_per_s;
    json["tokens_per_s"] = r.tokens_per_s;
    json["flops_per_s"] = r.flops_per_s;
    put_if(json, "mfu", r.mfu);
    put_if(json, "save_s", r.save_s);
    put_if(json, "save_blocked_s", r.save_blocked_s);
    return line_of(json);
}

std::string to_json(const ValidationRecord& r) {
    io::OrderedJson json;
    json["kind"] = "validation";
    json["time"] = r.unix_time_s;
    json["name"] = r.name;
    json["iteration"] = r.iteration;
    json["consumed_samples"] = r.consumed_samples;
    json["consumed_tokens"] = r.consumed_tokens;
    json["lm_loss"] = r.loss;
    json["ppl"] = perplexity(r.loss);
    json["tokens"] = r.n_tokens;
    json["elapsed_s"] = r.elapsed_s;
    return line_of(json);
}

std::string to_json(const SaveRecord& r) {
    io::OrderedJson json;
    json["kind"] = "save";
    json["time"] = r.unix_time_s;
    put_origin(json, r.origin);
    json["iteration"] = r.iteration;
    json["path"] = r.path;
    json["bytes"] = r.bytes;
    json["elapsed_s"] = r.elapsed_s;
    put_if(json, "blocked_s", r.blocked_s);
    return line_of(json);
}

std::string to_json(const LocalSaveRecord& r) {
    return io::OrderedJson{{"kind", "local_save"},
                           {"time", r.unix_time_s},
                           {"iteration", r.iteration},
                           {"hosts", r.n_hosts},
                           {"elapsed_s", r.elapsed_s}}
        .dump();
}

std::string to_json(const RunEvent& event, const io::OrderedJson& fields) {
    io::OrderedJson json{{"kind", event.kind}, {"time", event.unix_time_s}};
    put_origin(json, event.origin);
    json.update(fields);
    return line_of(json);
}

}  // namespace lm::metrics
