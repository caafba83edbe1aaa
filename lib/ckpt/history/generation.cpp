// SPDX-License-Identifier: Apache-2.0
#include "ckpt/history/generation.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/units.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/steps.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::ckpt {
namespace {

std::string file_of(const std::string& directory, i64 number) {
    return fmt::format("{}/{}{}", directory, generation_prefix, number);
}

std::string fence_of(const std::string& directory) {
    return fmt::format("{}/{}", directory, fence_file);
}

// Checks the number in a name of the directory. A larger number is not of a run, and adding 1 to
// the largest 64-bit number would overflow.
i64 checked_number(i64 number, const std::string& directory, std::string_view prefix) {
    if (number <= max_generation) return number;
    damaged(fmt::format("{}/{}{}", directory, prefix, number),
            "corrupt: expected a generation of at most {}: remove it", max_generation);
}

i64 newest_file(const std::string& directory) {
    i64 newest = 0;
    for (const std::string& name : io::list_directory(directory)) {
        newest = std::max(newest, number_after(name, generation_prefix));
    }
    return checked_number(newest, directory, generation_prefix);
}

// Who made a claim. Members that the claim does not have are empty.
struct Claimant {
    std::string host;
    i64 process = 0;
    std::string job;
    std::string started;
};

Claimant claimant_in(const io::Json& claim, const std::string& path) {
    const auto text = [&](const char* key) {
        return io::json_get_or<std::string>(claim, key, "", path);
    };
    return {.host = text("host"),
            .process = io::json_get_or<i32>(claim, "process", 0, path),
            .job = text("job"),
            .started = text("started")};
}

// Returns the JSON of a generation file or of fence.json; null when the file does not exist, or is
// incomplete because its writer was killed. Throws DamageError for values that no run writes.
io::Json read_claim(const std::string& path) {
    if (!io::checked::exists(path)) return {};
    io::Json document = io::json_or_null(io::read_file(path));
    if (!document.is_object() || !document.contains("generation")) return {};
    parsed(path, [&] { return generation_from(document, path); });
    parsed(path, [&] { return claimant_in(document, path); });
    return document;
}

i64 number_in(const io::Json& claim, const std::string& path) {
    return claim.is_null() ? 0 : generation_from(claim, path);
}

// Returns the largest generation number in generation files, in fence.json and in `latest`; no
// running process has a larger number. Reads the directory each time, because a newer run may be on
// another host of a shared file system.
i64 newest_claimed(const std::string& directory) {
    i64 newest = newest_file(directory);
    const std::string fence = fence_of(directory);
    newest = std::max(newest, number_in(read_claim(fence), fence));
    const std::optional<Tip> latest = read_latest(directory);
    if (latest && !latest->lineage.empty())
        newest = std::max(newest, latest->lineage.back().generation);
    return newest;
}

// Returns the largest generation number in the directory. Also reads the names of abandoned
// directories and the manifests of steps, because the generation files may have been deleted.
i64 newest_used(const std::string& directory) {
    const i64 claimed = newest_claimed(directory);
    i64 newest =
        std::max(claimed, checked_number(newest_abandoned(directory), directory, abandoned_prefix));
    for (const i64 step : steps_in(directory)) {
        try {
            const Manifest manifest = read_manifest(directory + "/" + step_name(step));
            newest = std::max(newest, manifest.generation);
        } catch (const DamageError&) {
            continue;  // a damaged step does not prevent a start
        } catch (const Error&) {
            // An unreadable step does not prevent a start either, if another file states a number.
            if (claimed == 0) throw;
        }
    }
    return newest;
}

std::string claim_text(const Generation& own, const std::optional<Tip>& start) {
    const Writer writer = this_writer();
    // The id tells this claim from one with the same number in another directory, also if a process
    // with the same number on a host with the same name made that one.
    const io::OrderedJson document{{"generation", own.number},
                                   {"run_id", own.run_id},
                                   {"id", new_run_id()},
                                   {"start", start ? to_json(start->step) : io::OrderedJson()},
                                   {"host", writer.host},
                                   {"process", ::getpid()},
                                   {"user", writer.user},
                                   {"job", writer.job},
                                   {"started", iso_time(static_cast<i64>(unix_time_s()))},
                                   {"lineage", to_json(own.lineage)}};
    return io::json_text(document);
}

// Creates the generation file durably. Otherwise a power cut could remove the file, and its number
// could be claimed twice. Returns false when the file exists already.
bool create_new(const std::string& path, const std::string& text) {
    const io::Fd fd(io::checked::create(path, O_WRONLY | O_EXCL));
    if (!fd.valid()) return false;
    io::checked::write_at(fd.get(), path, std::as_bytes(std::span(text)), 0);
    io::checked::fsync(fd.get(), path);
    io::checked::fsync_parent_of(path);
    return true;
}

std::string describe(const Claimant& claimant) {
    return fmt::format("host {}, process {}{}{}, started {}", claimant.host, claimant.process,
                       claimant.job.empty() ? "" : ", job ", claimant.job, claimant.started);
}

// Returns whether the process of a claim may still run. For a process of another host the result is
// true, because process ids are valid only on one host.
bool may_run(const Claimant& claimant) {
    if (claimant.host != host_name() || claimant.process <= 0) return true;
    if (claimant.process == ::getpid()) return false;
    return ::kill(static_cast<pid_t>(claimant.process), 0) == 0 || errno != ESRCH;
}

// Returns the claim of generation `number`; nullopt when it has no complete generation file.
std::optional<Claimant> claimant_of(const std::string& directory, i64 number) {
    const std::string path = file_of(directory, number);
    const io::Json claim = read_claim(path);
    return claim.is_null() ? std::nullopt : std::optional(claimant_in(claim, path));
}

void report_superseded(const std::string& directory, i64 number,
                       const std::optional<Claimant>& earlier) {
    if (!earlier || !may_run(*earlier)) return;
    note(
        "{}: this run supersedes generation {} ({}): if the earlier run is alive, it stops at its "
        "next save",
        directory, number, describe(*earlier));
}

// Returns the generation in the name of a save's temporary directory; 0 for other names.
i64 generation_of_temporary(std::string_view name) {
    const size_t tmp = name.find(temporary_mark);
    if (tmp == name.npos || step_from_name(name.substr(0, tmp)) < 0) return 0;
    return number_after(name.substr(tmp), temporary_mark);
}

// Renames the directory `path` to `aside`, then removes it. The writer of `path` may still run and
// try to rename `path` to its final name. That rename publishes the complete directory or fails,
// but never publishes a half-removed directory.
void remove_aside(const std::string& path, const std::string& aside) {
    try {
        io::checked::rename(path, aside);
    } catch (const Error&) {
        if (io::exists(path)) throw;
        return;
    }
    io::remove_tree(aside);
}

void remove_leftovers(const Generation& own) {
    for (const std::string& name : io::list_directory(own.directory)) {
        const std::string path = own.directory + "/" + name;
        const i64 generation = number_after(name, generation_prefix);
        if (generation > 0 && generation < own.number) io::checked::unlink(path);
        const i64 writer = generation_of_temporary(name);
        if (writer > 0 && writer < own.number) {
            note("{}: removing the files of an interrupted save", path);
            // The new name contains the generation of this run, so that the next claim() removes
            // the directory if this removal is interrupted, too.
            const std::string step = path.substr(0, path.rfind(temporary_mark));
            remove_aside(path, fmt::format("{}{}{}", step, temporary_mark, own.number));
        }
    }
    for (const std::string_view file : {latest_file, fence_file}) {
        for (const std::string& path :
             io::stale_temporaries(fmt::format("{}/{}", own.directory, file))) {
            io::remove_tree(path);
        }
    }
}

// Writes a claim to fence.json. If a newer claim was created meanwhile, writes the newer claim
// afterwards, so that fence.json never stays older than the newest generation file.
void write_fence(const std::string& directory, i64 number, std::string text) {
    while (true) {
        io::write_file(fence_of(directory), text, io::Overwrite::yes);
        const i64 newest = newest_file(directory);
        if (newest <= number) return;
        const io::Json newer = read_claim(file_of(directory, newest));
        if (newer.is_null()) return;  // incomplete; its writer will finish it and write fence.json
        number = newest;
        text = io::json_text(newer);
    }
}

// Returns whether the directory has the claim of `own`, so that it is the directory that was
// claimed.
bool has_claim(const Generation& own) {
    const io::Json claim = io::json_or_null(own.claim);
    return read_claim(file_of(own.directory, own.number)) == claim ||
           read_claim(fence_of(own.directory)) == claim;
}

}  // namespace

bool is_claim(std::string_view name) {
    return name == fence_file || number_after(name, generation_prefix) > 0;
}

Generation claim(const std::string& directory, const std::optional<Tip>& start) {
    io::make_directories(directory);
    Generation own{directory, 0, {}, {}};
    if (start) {
        own.lineage = start->lineage;
        own.run_id = own.lineage.empty() ? "" : own.lineage.back().run_id;
    }
    if (own.run_id.empty()) own.run_id = new_run_id();
    own.lineage.push_back(
        {0, own.run_id, start ? std::optional(start->step) : std::optional<StepReference>()});
    const i64 previous = newest_claimed(directory);
    const std::optional<Claimant> earlier = claimant_of(directory, previous);
    // Exclusive creation alone is not enough: another run may create N + 1 and remove file N after
    // newest_used() and before create_new(), so that creating N succeeds twice. If a newer file
    // exists after the creation, this has happened, and the loop tries the next number.
    std::string text;
    do {
        const i64 used = newest_used(directory);
        if (used >= max_generation) {
            damaged(directory,
                    "corrupt: has generation {}, expected a smaller one: remove the files that "
                    "state it, which no run has written",
                    used);
        }
        own.number = used + 1;
        own.lineage.back().generation = own.number;
        text = claim_text(own, start);
    } while (!create_new(file_of(directory, own.number), text) ||
             newest_claimed(directory) != own.number);
    own.claim = text;
    write_fence(directory, own.number, text);
    report_superseded(directory, previous, earlier);
    remove_leftovers(own);
    return own;
}

std::optional<Claim> newest_claim(const std::string& directory) {
    std::string path = file_of(directory, newest_file(directory));
    io::Json document = read_claim(path);
    const std::string fence = fence_of(directory);
    const io::Json fenced = read_claim(fence);
    if (number_in(fenced, fence) > number_in(document, path)) {
        document = fenced;
        path = fence;
    }
    if (document.is_null()) return std::nullopt;
    return parsed(path, [&] {
        return Claim{.number = number_in(document, path),
                     .start = optional_reference(document, "start", path),
                     .lineage = lineage_from(
                         io::json_get<std::vector<io::Json>>(document, "lineage", path), path),
                     .who = describe(claimant_in(document, path))};
    });
}

void check_not_superseded(const Generation& generation) {
    const i64 newest = newest_claimed(generation.directory);
    if (newest <= generation.number) {
        if (generation.claim.empty() || has_claim(generation)) return;
        fail(Exit::superseded, generation.directory,
             "this directory does not have the claim of this run (generation {}): it was moved or "
             "replaced, or {}{} and {} were deleted: this run stops without writing",
             generation.number, generation_prefix, generation.number, fence_file);
    }
    const std::optional<Claim> claim = newest_claim(generation.directory);
    fail(Exit::superseded, generation.directory,
         "a newer run (generation {}: {}) uses this directory: this run (generation {}) stops "
         "without writing",
         newest, claim && claim->number == newest ? claim->who : "unknown", generation.number);
}

}  // namespace lm::ckpt
