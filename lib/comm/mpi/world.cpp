// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/world.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/threads.hpp"
#include "comm/flight_dump.hpp"
#include "comm/mpi/plugin.hpp"

namespace lm::comm {

struct MpiWorld::Question {
    u64 group;  // 0: the question only asks for a dump, without an answer
};

struct MpiWorld::Answer {
    i32 rank;
    i32 kept_rank;  // the rank whose host name this rank keeps, see exchange_hosts()
    i64 n_started;
    char host[64];
    char kept_host[64];
    char where[256];
    char device[64];
};

namespace {

constexpr int question_tag = 1;
constexpr int answer_tag = 2;
constexpr auto answer_interval = std::chrono::milliseconds(100);
constexpr double answer_time_s = 2;  // a rank that is alive answers within answer_interval
constexpr size_t max_pending_answers = 64;
constexpr size_t max_hosts_asked = 64;

bool job_is_over = true;

// The C library calls this function when the process exits (on_exit(3)). If the job is not over,
// this function ends the job with the exit code of the process, or with Exit::failure if that code
// is 0.
void end_job(int status, void*) {
    if (!job_is_over)
        MPI_Abort(MPI_COMM_WORLD, status == 0 ? static_cast<int>(Exit::failure) : status);
}

// Returns all ranks except `own` and the ranks in `ranks`.
std::vector<int> all_but(const std::vector<int>& ranks, int own, int size) {
    std::vector<bool> is_in(static_cast<size_t>(size));
    is_in[static_cast<size_t>(own)] = true;
    for (const int rank : ranks) is_in[static_cast<size_t>(rank)] = true;
    std::vector<int> others;
    for (int rank = 0; rank < size; ++rank) {
        if (!is_in[static_cast<size_t>(rank)]) others.push_back(rank);
    }
    return others;
}

template <size_t n>
void put(char (&target)[n], const std::string& text) {
    std::memset(target, 0, n);
    std::memcpy(target, text.data(), std::min(text.size(), n - 1));
}

}  // namespace

MpiWorld::MpiWorld(const LaunchOptions& options)
    : options_(options),
      exceptions_at_start_(std::uncaught_exceptions()),
      host_(host_name()),
      sent_(max_pending_answers) {}

void MpiWorld::join() {
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init");
    job_is_over = false;
    on_exit(end_job, nullptr);
    if (provided < MPI_THREAD_SERIALIZED) {
        run_error("MPI",
                  "the library provides thread level {}, but MPI_THREAD_SERIALIZED is required: "
                  "use a library with thread support",
                  provided);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    ops_ = std::make_unique<MpiOps>();
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
    exchange_hosts();
    choose_spin();
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    group_ = mpi_group(*this, comm);
    group_->record_to(options_.recorder);
    answering_ = start_thread([this] { answer_questions(); });
}

MpiWorld::~MpiWorld() {
    if (!answering_.joinable()) return;  // join() was not called, or has failed
    const bool failing = failed_.load() || std::uncaught_exceptions() > exceptions_at_start_;
    if (!failing) {
        try {
            group_->barrier();  // has a timeout, unlike MPI_Finalize
        } catch (const Error& error) {
            warn("{}", error.what());
            failed_.store(true);
        }
    }
    stop_answering();
    if (failing || failed_.load()) {
        std::this_thread::sleep_for(std::chrono::duration<double>(report_after_s(rank_)));
        return;  // end_job() runs when the process exits
    }
    group_.reset();
    MPI_Comm_free(&control_);
    job_is_over = true;
    MPI_Finalize();
}

void MpiWorld::end(Exit code) {
    const std::lock_guard lock(mutex_);
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
    std::_Exit(static_cast<int>(code));
}

std::string MpiWorld::describe() const {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(version, &length);
    const std::string text(version, static_cast<size_t>(length));
    return fmt::format("{} ranks, {}", size_, text.substr(0, text.find_first_of(",\n")));
}

// Sets kept_host_: each rank r keeps the host name of rank (r - size / 2) mod size. So when a whole
// host fails, the ranks that keep the name of this host are on other hosts.
void MpiWorld::exchange_hosts() {
    char mine[64];
    char kept[64] = "";
    put(mine, host_);
    const int half = size_ / 2;
    check_mpi(
        MPI_Sendrecv(mine, sizeof mine, MPI_CHAR, (rank_ + half) % size_, 0, kept, sizeof kept,
                     MPI_CHAR, (rank_ - half + size_) % size_, 0, control_, MPI_STATUS_IGNORE),
        "MPI_Sendrecv");
    kept_host_ = kept;
}

// Sets spin_s_. Spinning is useful when every rank of this host has its own core. With fewer cores,
// the awaited rank may need the core on which this rank spins.
void MpiWorld::choose_spin() {
    constexpr double spin_with_own_core_s = 100e-6;
    MPI_Comm host = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(control_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host),
              "MPI_Comm_split_type");
    int n_neighbours = 1;
    MPI_Comm_size(host, &n_neighbours);
    MPI_Comm_free(&host);
    if (n_neighbours <= sysconf(_SC_NPROCESSORS_ONLN)) spin_s_ = spin_with_own_core_s;
}

void MpiWorld::add_group(u64 id, const std::atomic<i64>& n_started) {
    groups_[id] = &n_started;
}

void MpiWorld::remove_group(u64 id) {
    groups_.erase(id);
}

// ---- Answering ---------------------------------------------------------------------------------

// Answers the questions of other ranks. Runs in a thread of its own, because the rank's main thread
// may be inside a long computation. Calls MPI every 0.1 s, each time only for a probe and a small
// receive.
void MpiWorld::answer_questions() {
    std::unique_lock stop_lock(stop_mutex_);
    while (!stopped_.wait_for(stop_lock, answer_interval, [this] { return stop_; })) {
        const std::lock_guard lock(mutex_);
        int waiting = 1;
        while (!failed_.load() && waiting) {
            MPI_Status status;
            waiting = 0;
            if (MPI_Iprobe(MPI_ANY_SOURCE, question_tag, control_, &waiting, &status)) return;
            if (waiting) answer_one(status.MPI_SOURCE);
        }
    }
}

void MpiWorld::answer_one(int asker) {
    Question question{};
    MPI_Recv(&question, sizeof question, MPI_BYTE, asker, question_tag, control_,
             MPI_STATUS_IGNORE);
    if (options_.recorder) options_.recorder->request_dump();
    if (question.group == 0) {
        asked_to_dump_ = true;
        return;
    }
    Answer& answer = sent_[next_sent_++ % sent_.size()];
    const auto group = groups_.find(question.group);
    answer.rank = rank_;
    answer.kept_rank = (rank_ - size_ / 2 + size_) % size_;
    answer.n_started = group == groups_.end() ? -1 : group->second->load();
    put(answer.host, host_);
    put(answer.kept_host, kept_host_);
    put(answer.where, options_.recorder ? options_.recorder->where() : "");
    put(answer.device, options_.recorder ? options_.recorder->ring().device : "");
    // This thread does not wait for the send, because the asking rank may have ended. The memory of
    // the answer is reused after max_pending_answers further answers.
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(&answer, sizeof answer, MPI_BYTE, asker, answer_tag, control_, &request);
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
}

void MpiWorld::stop_answering() {
    {
        const std::lock_guard lock(stop_mutex_);
        stop_ = true;
    }
    stopped_.notify_all();
    if (answering_.joinable()) answering_.join();
}

// ---- Asking other ranks for their status -------------------------------------------------------

void MpiWorld::put_questions(const std::vector<int>& ranks, u64 group,
                             std::deque<Question>& questions, std::deque<MPI_Request>& requests) {
    questions.push_back({group});
    const std::lock_guard lock(mutex_);
    for (const int rank : ranks) {
        requests.emplace_back(MPI_REQUEST_NULL);
        MPI_Isend(&questions.back(), sizeof(Question), MPI_BYTE, rank, question_tag, control_,
                  &requests.back());
    }
}

void MpiWorld::collect_answers(size_t n_wanted, double seconds, std::vector<Answer>& answers) {
    const Stopwatch watch;
    while (answers.size() < n_wanted && watch.elapsed_s() < seconds) {
        int waiting = 0;
        {
            const std::lock_guard lock(mutex_);
            MPI_Status status;
            MPI_Iprobe(MPI_ANY_SOURCE, answer_tag, control_, &waiting, &status);
            if (waiting) {
                Answer answer{};
                MPI_Recv(&answer, sizeof answer, MPI_BYTE, status.MPI_SOURCE, answer_tag, control_,
                         MPI_STATUS_IGNORE);
                answers.push_back(answer);
            }
        }
        if (!waiting) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

std::vector<RankStatus> MpiWorld::ask(const std::vector<int>& ranks, u64 group) {
    static std::mutex one_at_a_time;  // the rank's thread and NCCL's monitor may both ask
    const std::lock_guard asking(one_at_a_time);
    // The buffers exist until the process ends, because MPI may still be sending them.
    static std::deque<Question> questions;
    static std::deque<MPI_Request> requests;
    FlightRecorder* const recorder = options_.recorder;
    const i64 n_dumps = recorder ? recorder->n_dumps() : 0;
    std::vector<Answer> answers;
    put_questions(ranks, group, questions, requests);
    if (recorder) {
        recorder->request_dump();
        // asked_to_dump_ is true when another rank, which timed out earlier, has already asked all
        // ranks for dumps.
        if (!asked_to_dump_) put_questions(all_but(ranks, rank_, size_), 0, questions, requests);
    }
    collect_answers(ranks.size(), answer_time_s, answers);
    std::map<int, RankStatus> seen;
    for (const int rank : ranks) seen[rank].rank = rank;
    for (const Answer& answer : answers) {
        seen[answer.rank] = {answer.rank, true,         answer.n_started,
                             answer.host, answer.where, answer.device};
    }
    // For each rank that does not answer, asks the rank that keeps the host name of that rank.
    std::vector<int> keepers;
    for (const auto& [rank, status] : seen) {
        const int keeper = (rank + size_ / 2) % size_;
        if (status.answered || keepers.size() == max_hosts_asked) continue;
        if (keeper == rank_) {
            seen[rank].host = kept_host_;
        } else {
            keepers.push_back(keeper);
        }
    }
    answers.clear();
    if (!keepers.empty()) {
        put_questions(keepers, group, questions, requests);
        collect_answers(keepers.size(), answer_time_s, answers);
    }
    for (const Answer& answer : answers) {
        const auto kept = seen.find(answer.kept_rank);
        if (kept != seen.end() && !kept->second.answered) kept->second.host = answer.kept_host;
    }
    if (recorder) finish_dump(*recorder, n_dumps);
    std::vector<RankStatus> statuses;
    for (const int rank : ranks) {
        RankStatus& status = seen[rank];
        if (!status.answered && recorder) status.where = state_of_silent_rank(*recorder, rank);
        statuses.push_back(status);
    }
    return statuses;
}

std::vector<RankStatus> MpiWorld::ask_for_silent(const std::vector<int>& ranks, u64 group) {
    std::vector<RankStatus> statuses = ask(ranks, group);
    if (!std::ranges::all_of(statuses, &RankStatus::answered)) return statuses;
    for (RankStatus& status : ask(all_but(ranks, rank_, size_), group)) {
        if (!status.answered) statuses.push_back(std::move(status));
    }
    return statuses;
}

// ---- The plugin --------------------------------------------------------------------------------

namespace {

std::unique_ptr<Launch> open_world(const LaunchOptions& options) {
    auto world = std::make_unique<MpiWorld>(options);
    world->join();
    return world;
}

}  // namespace

}  // namespace lm::comm

const lm::comm::MpiPlugin* lm_mpi_plugin() {
    static const lm::comm::MpiPlugin plugin = {lm::comm::mpi_plugin_abi, lm::comm::open_world};
    return &plugin;
}
