// SPDX-License-Identifier: Apache-2.0
// lm-ckpt generate: continues prompts with the weights of a checkpoint, on the CPU.
#include <algorithm>
#include <exception>
#include <map>
#include <memory>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "cli/main.hpp"
#include "engine_options.hpp"
#include "eval/generate_text.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "request_lines.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

constexpr const char* prompt_option = "--prompt";

struct Args {
    std::string path;
    std::optional<std::string> prompt;
    std::optional<std::string> prompts;
    i64 max_new_tokens = 100;
    i64 batch_size = 16;
    std::optional<double> temperature;
    std::optional<i64> top_k;
    std::optional<double> top_p;
    i64 seed = 1234;
    std::vector<std::string> stops;
    bool ignore_end = false;
    bool cut_prompts = false;
    bool json = false;
    bool quiet = false;
    EngineArgs engine;
};

eval::Sampling sampling_of(const Args& args) {
    const bool samples = args.temperature || args.top_k || args.top_p;
    eval::Sampling sampling{.temperature = args.temperature.value_or(samples ? 1.0 : 0.0),
                            .top_k = args.top_k.value_or(0),
                            .top_p = args.top_p.value_or(1.0),
                            .seed = static_cast<u64>(args.seed)};
    if (sampling.temperature < 0) {
        usage_error("--temperature", "must be at least 0 (0: greedy), got {}",
                    sampling.temperature);
    }
    if (sampling.top_p <= 0 || sampling.top_p > 1) {
        usage_error("--top-p", "must be above 0 and at most 1, got {}", sampling.top_p);
    }
    if (sampling.temperature == 0 && (args.top_k || args.top_p)) {
        usage_error(
            "--temperature",
            "0 selects the most probable token and does not use --top-k and --top-p: remove "
            "these options");
    }
    return sampling;
}

// A prompt, given as a text or as ids.
struct Prompt {
    eval::GenerateRequest request;
    std::optional<std::string> text;
};

Prompt base_prompt(const Args& args) {
    Prompt prompt;
    prompt.request.max_new_tokens = args.max_new_tokens;
    prompt.request.stops = args.stops;
    prompt.request.ignore_end = args.ignore_end;
    return prompt;
}

// Returns the texts of `value`, which is a text or a list of texts.
std::vector<std::string> texts_of(const io::Json& value, const std::string& where) {
    if (value.is_string()) return {value.get<std::string>()};
    return io::json_as<std::vector<std::string>>(value, "'stop'", where);
}

// Parses {"prompt": TEXT or [ids], "max_new_tokens": N, "stop": TEXT or [TEXT, ...]}.
Prompt parse_prompt(const Args& args, const RequestLine& line, u64 number) {
    Prompt prompt = base_prompt(args);
    eval::GenerateRequest& request = prompt.request;
    request.object = line.where;
    request.sequence = number;
    const io::Json object = io::parse_json(line.text, line.where);
    const auto value = io::json_get<io::Json>(object, "prompt", line.where);
    if (value.is_array()) {
        request.prompt = io::json_as<std::vector<i32>>(value, "'prompt'", line.where);
    } else {
        prompt.text = io::json_as<std::string>(value, "'prompt'", line.where);
    }
    request.max_new_tokens =
        io::json_get_or<i64>(object, "max_new_tokens", request.max_new_tokens, line.where);
    if (request.max_new_tokens < 0) {
        run_error(line.where, "'max_new_tokens' must be at least 0, got {}",
                  request.max_new_tokens);
    }
    if (object.contains("stop")) request.stops = texts_of(object["stop"], line.where);
    return prompt;
}

// Removes the first tokens of the prompt when prompt and new tokens together are longer than the
// context.
void cut(eval::GenerateRequest& request, i64 context) {
    const i64 room = std::max<i64>(1, context - request.max_new_tokens);
    const i64 beyond = std::max<i64>(0, std::ssize(request.prompt) - room);
    request.prompt.erase(request.prompt.begin(), request.prompt.begin() + beyond);
}

std::string json_line_of(const Prompt& prompt, const eval::Generated& result, bool texts) {
    io::OrderedJson object;
    if (prompt.text) object["prompt"] = *prompt.text;
    if (texts) object["text"] = result.text;
    object["prompt_tokens"] = prompt.request.prompt.size();
    object["ids"] = result.ids;
    object["finish"] = name_in(eval::finishes, result.finish);
    return io::json_line(object);
}

void print_part(std::string_view text) {
    cli::write_stdout(text);
    cli::flush_stdout();
}

// Continues prompts with a model and its tokenizer. Counts the tokens and measures the time.
class Generation {
  public:
    Generation(const Args& args, const eval::Sampling& sampling)
        : args_(args),
          sampling_(sampling),
          model_(eval::open_model(args.path)),
          tokenizer_(eval::find_tokenizer(model_, args.engine.tokenizer)) {}

    // Converts a text to ids. Throws Error for a prompt that the model cannot continue.
    void encode(Prompt& prompt) const {
        eval::GenerateRequest& request = prompt.request;
        if (prompt.text) {
            if (const i64 bad = find_invalid_utf8(*prompt.text); bad >= 0) {
                usage_error(request.object, "is not valid UTF-8 at byte {}", bad + 1);
            }
            eval::require_tokenizer(model_, tokenizer_);
            request.prompt = tokenizer_.tokenizer->encode(*prompt.text);
        }
        if (args_.cut_prompts) cut(request, model_.tensors->model().max_positions);
        check_stops(request);
        eval::check_prompt(request, model_.tensors->model(), tokenizer_);
    }

    void load(i64 n_prompts, i64 longest) {
        engine_ = load_engine(*model_.tensors, args_.engine, std::min(n_prompts, args_.batch_size),
                              longest);
        if (engine_->sequences() < std::min(n_prompts, args_.batch_size) && !args_.quiet) {
            note(
                "{}: keys and values of a prompt and its text need {}, so that the free memory "
                "suffices for {} prompt{} at a time instead of {}",
                model_.tensors->path(), human_size(engine_->sequence_bytes()), engine_->sequences(),
                engine_->sequences() == 1 ? "" : "s", args_.batch_size);
        }
    }
    i64 context() const { return model_.tensors->model().max_positions; }

    // Generates the continuations of all prompts that `next` returns (eval::Requests::next), and
    // prints them in the order of the prompts: JSON objects, or the text of the only prompt while
    // the model generates it.
    void print(const std::function<std::optional<Prompt>(bool wait)>& next) {
        const bool json = args_.json || args_.prompts;
        std::map<u64, Prompt> running;
        std::map<u64, std::string> finished;  // texts that wait for an earlier one
        eval::Requests requests;
        requests.next = [&](bool wait) -> const eval::GenerateRequest* {
            std::optional<Prompt> prompt = next(wait);
            if (!prompt) return nullptr;
            const u64 number = prompt->request.sequence;
            return &running.emplace(number, std::move(*prompt)).first->second.request;
        };
        requests.done = [&](const eval::GenerateRequest& request, const eval::Generated& result) {
            const auto prompt = running.extract(request.sequence);
            count(request, result);
            finished[request.sequence] =
                json ? json_line_of(prompt.mapped(), result, tokenizer_.tokenizer != nullptr)
                     : "\n";
            while (!finished.empty() &&
                   (running.empty() || finished.begin()->first < running.begin()->first)) {
                print_part(finished.extract(finished.begin()).mapped());
            }
        };
        if (!json) requests.part = print_part;
        times_ = generate(*engine_, tokenizer_, sampling_, requests);
    }

    void log_speed() const {
        if (args_.quiet) return;
        const double rate =
            static_cast<double>(n_new_ - n_prompts_) / std::max(times_.tokens_s, 1e-9);
        note("{}: {} prompt token{} in {}, {} new token{}{}", model_.tensors->path(), n_prompt_,
             n_prompt_ == 1 ? "" : "s", human_duration(times_.prompts_s), n_new_,
             n_new_ == 1 ? "" : "s", rate > 0 ? fmt::format(", {:.1f} tokens/s", rate) : "");
    }

  private:
    void count(const eval::GenerateRequest& request, const eval::Generated& result) {
        n_prompts_ += 1;
        n_prompt_ += std::max<i64>(1, std::ssize(request.prompt));
        n_new_ += std::ssize(result.ids);
        if (result.finish == eval::Finish::context && !args_.quiet) {
            note("{}: stopped at the longest context of the model, {} tokens", request.object,
                 engine_->context());
        }
    }

    void check_stops(const eval::GenerateRequest& request) const {
        if (request.stops.empty()) return;
        if (!tokenizer_.tokenizer) {
            usage_error("--stop", "needs a tokenizer: give --tokenizer-model FILE");
        }
        if (std::ranges::find(request.stops, "") != request.stops.end()) {
            usage_error(request.object, "a stop text is empty: give a text");
        }
    }

    const Args& args_;
    eval::Sampling sampling_;
    eval::OpenedModel model_;
    eval::ModelTokenizer tokenizer_;
    std::unique_ptr<eval::Engine> engine_;
    i64 n_prompts_ = 0;
    i64 n_prompt_ = 0;  // tokens
    i64 n_new_ = 0;     // tokens
    eval::GenerateTimes times_;
};

// Begins each line as soon as it is read, for a program at the other end of a pipe. A wrong line
// ends the program after the texts of the earlier lines.
void answer_standard_input(const Args& args, Generation& generation) {
    generation.load(INT64_MAX, 0);
    RequestLines lines = RequestLines::open("-");
    u64 number = 0;
    std::exception_ptr problem;
    generation.print([&](bool wait) -> std::optional<Prompt> {
        if (problem) return std::nullopt;
        try {
            const auto line = lines.next(wait);
            if (!line) return std::nullopt;
            Prompt prompt = parse_prompt(args, *line, number++);
            generation.encode(prompt);
            return prompt;
        } catch (const Error&) {
            problem = std::current_exception();
            return std::nullopt;
        }
    });
    if (problem) std::rethrow_exception(problem);
}

std::vector<Prompt> prompts_of(const Args& args) {
    std::vector<Prompt> prompts;
    if (args.prompts) {
        RequestLines lines = RequestLines::open(*args.prompts);
        while (const auto line = lines.next(true)) {
            prompts.push_back(parse_prompt(args, *line, prompts.size()));
        }
        return prompts;
    }
    prompts.push_back(base_prompt(args));
    prompts.back().request.object = prompt_option;
    prompts.back().text = *args.prompt == "-" ? io::read_input("/dev/stdin") : *args.prompt;
    return prompts;
}

// Checks all prompts before the weights are loaded.
void answer_all(const Args& args, Generation& generation) {
    std::vector<Prompt> prompts = prompts_of(args);
    i64 longest = 0;
    for (Prompt& prompt : prompts) {
        generation.encode(prompt);
        longest = std::max(longest, eval::sequence_length(prompt.request, generation.context()));
    }
    generation.load(std::ssize(prompts), longest);
    auto prompt = prompts.begin();
    generation.print([&](bool) {
        return prompt == prompts.end() ? std::nullopt : std::optional(std::move(*prompt++));
    });
}

int run(const Args& args) {
    const eval::Sampling sampling = sampling_of(args);
    check_at_least("--batch-size", args.batch_size, 1);
    if (args.prompt.has_value() == args.prompts.has_value()) {
        usage_error(prompt_option, "{}: give the text to continue, or a file with --prompts",
                    args.prompt ? "cannot be combined with --prompts" : "is missing");
    }
    Generation generation(args, sampling);
    args.prompts == "-" ? answer_standard_input(args, generation) : answer_all(args, generation);
    generation.log_speed();
    return 0;
}

}  // namespace

void add_generate(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb =
        options.verb("generate", "continue prompts with the weights of a checkpoint, on the CPU",
                     [args] { return run(*args); });
    verb.not_called({"sample"});
    verb.examples(
        {"lm-ckpt generate checkpoints --prompt 'The first' --max-new-tokens 50",
         "lm-ckpt generate gpt2-hf --prompt 'The first' --temperature 0.8 --top-p 0.95",
         "echo '{\"prompt\": \"The first\"}' | lm-ckpt generate checkpoints --prompts -"});
    verb.positional("CKPT", &args->path,
                    "global_step* directory, directory of steps (its latest step is read), "
                    "Megatron checkpoint, or Hugging Face model");
    verb.group("Text");
    verb.value("--prompt", &args->prompt, "TEXT",
               "text to continue; -: all of standard input; empty: begin a document");
    verb.value("--prompts", &args->prompts, "FILE",
               "JSON Lines with a \"prompt\" (a text or a list of ids) and, optionally, "
               "\"max_new_tokens\" and \"stop\"; -: standard input; the output is JSON Lines");
    verb.value("--batch-size", &args->batch_size, "N",
               "prompts of FILE that the model continues at the same time, if the free memory "
               "suffices for their keys and values; a text is the same for any N");
    verb.value("--max-new-tokens", &args->max_new_tokens, "N", "largest number of tokens to add");
    verb.values_added("--stop", &args->stops, "TEXT",
                      "end before this text; may be given several times");
    verb.flag("--ignore-eod", &args->ignore_end, "continue after an end of document");
    verb.flag("--cut-prompts", &args->cut_prompts,
              "remove the first tokens of a prompt that leaves no room for N new tokens");
    verb.group("Sampling");
    verb.value("--temperature", &args->temperature, "T",
               "sample at this temperature; 0: the most probable token; default: 0, or 1 with "
               "--top-k or --top-p");
    verb.value("--top-k", &args->top_k, "K", "sample from the K most probable tokens; 0: all");
    verb.value("--top-p", &args->top_p, "P",
               "sample from the fewest tokens whose probabilities sum to at least P");
    verb.value("--seed", &args->seed, "N",
               "seed of sampling; the same seed gives the same text for any number of threads");
    add_engine_options(verb, args->engine);
    verb.group("Output");
    verb.flag("--json", &args->json, "print one JSON object for each prompt");
    verb.flag("--quiet,-q", &args->quiet, "do not log the speed");
}

}  // namespace lm::ckpt_tool
