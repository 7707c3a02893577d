// Hands records to one way of writing them and says what it cost, as one JSON line.
//
//   loggers VARIANT RECORD_BYTES RECORDS THREADS DIRECTORY [THINK_NS]
//   loggers --list         variants that are built in
//
// One process is one measurement: processor time, memory and caches are that variant's alone.
#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <dirent.h>

#include "logger.h"

namespace {

// One in so many calls is timed, so that the clock is not most of the measurement. A prime, so that
// it does not coincide with periodic work.
constexpr uint64_t sample_every = 13;
constexpr int clock_samples = 100001;
constexpr size_t digits = 10;

using Make = std::unique_ptr<Logger> (*)(const std::string&, const Setup&);
const struct {
    const char* name;
    Make make;
} variants[] = {
    {"tacho", make_tacho},        {"tacho-pair", make_tacho},    {"localtime", make_direct},
    {"localtime_r", make_direct}, {"buffered", make_direct},     {"spdlog", make_spdlog},
    {"quill", make_quill},        {"quill-bounded", make_quill},
};

int64_t now_ns(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

[[noreturn]] void fail(const std::string& text) {
    fprintf(stderr, "loggers: %s\n", text.c_str());
    exit(1);
}

// A line of `bytes` with newline, in the form of server_audit, and the record in it. The
// statement ends in a number that counts: no two lines are equal.
class Source {
public:
    Source(size_t bytes, unsigned thread) {
        const std::string user = "app_user", ip = "10.20.30.40", db = "shop";
        const std::string head =
            "db-1," + user + "," + ip + "," + std::to_string(100 + thread) + ",QUERY," + db + ",'";
        const std::string select = "SELECT ";
        const std::string where = "a FROM t WHERE id=";
        const std::string tail = "',0";
        const size_t fixed = head.size() + select.size() + where.size() + digits + tail.size() + 1;
        if (bytes < fixed) {
            fail("records have at least " + std::to_string(fixed) + " bytes");
        }
        std::string columns;
        while (columns.size() < bytes - fixed) {
            columns += "o.id, o.created_at, o.total_cents, c.name, c.email, ";
        }
        columns.resize(bytes - fixed);
        line_ = head + select + columns + where + std::string(digits, '0') + tail;
        record_.line = line_;
        const std::string_view line = line_;
        record_.user = line.substr(5, user.size());
        record_.ip = line.substr(5 + user.size() + 1, ip.size());
        record_.db = line.substr(head.size() - db.size() - 2, db.size());
        record_.sql = line.substr(head.size(), line.size() - head.size() - tail.size());
        record_.conn = thread + 1;
    }

    const Record& next() {
        record_.number++;
        char* digit = &line_[line_.size() - 4];
        while (++*digit > '9') {
            *digit-- = '0';
        }
        return record_;
    }

private:
    std::string line_;
    Record record_ = {};
};

struct Produced {
    std::vector<uint32_t> samples_ns;
    int64_t cpu_ns = 0;
};

void think(int64_t ns) {
    const int64_t until = now_ns(CLOCK_MONOTONIC) + ns;
    while (now_ns(CLOCK_MONOTONIC) < until) {
    }
}

void produce(Logger& logger, Source& source, uint64_t records, int64_t think_ns, Produced& out) {
    const int64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t i = 0; i < records; i++) {
        const Record& record = source.next();
        if (i % sample_every != 0) {
            logger.log(record);
        } else {
            const int64_t before = now_ns(CLOCK_MONOTONIC);
            logger.log(record);
            const int64_t ns = now_ns(CLOCK_MONOTONIC) - before;
            out.samples_ns.push_back(static_cast<uint32_t>(std::min<int64_t>(ns, UINT32_MAX)));
        }
        if (think_ns != 0) {
            think(think_ns);
        }
    }
    logger.end();
    out.cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
}

// The duration of the two readings of the clock around a call.
int64_t clock_cost_ns() {
    std::vector<int64_t> spans(clock_samples);
    for (int64_t& span : spans) {
        const int64_t before = now_ns(CLOCK_MONOTONIC);
        span = now_ns(CLOCK_MONOTONIC) - before;
    }
    std::nth_element(spans.begin(), spans.begin() + clock_samples / 2, spans.end());
    return spans[clock_samples / 2];
}

struct Files {
    uint64_t bytes = 0;
    uint64_t records = 0; // lines that have the text of a record
};

Files count_files(const std::string& directory) {
    Files files;
    DIR* entries = opendir(directory.c_str());
    if (entries == nullptr) {
        fail("cannot read " + directory);
    }
    while (const dirent* entry = readdir(entries)) {
        std::ifstream in(directory + "/" + entry->d_name, std::ios::binary);
        std::string line;
        while (entry->d_name[0] != '.' && std::getline(in, line)) {
            files.bytes += line.size() + 1;
            files.records += line.find(" FROM t WHERE id=") != std::string::npos;
        }
    }
    closedir(entries);
    return files;
}

double seconds_of(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

struct Cpu {
    double all_s;
    double kernel_s;
};

Cpu cpu() {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const double kernel_s = seconds_of(usage.ru_stime);
    return {seconds_of(usage.ru_utime) + kernel_s, kernel_s};
}

int list() {
    for (const auto& variant : variants) {
        if ((variant.make != make_quill || has_quill) &&
            (variant.make != make_spdlog || has_spdlog)) {
            puts(variant.name);
        }
    }
    return 0;
}

struct Measured {
    double accepted_s = 0;
    double in_file_s = 0;
    double writer_cpu_s = 0;
    double producers_cpu_s = 0;
    double kernel_cpu_s = 0;
    std::vector<uint32_t> samples_ns;
};

// All threads begin together; each hands over `per_thread` records.
Measured measure(Logger& logger, unsigned thread_count, size_t record_bytes, uint64_t per_thread,
                 int64_t think_ns) {
    std::vector<Source> sources;
    std::vector<Produced> produced(thread_count);
    // Records point into their source: it must not move.
    sources.reserve(thread_count);
    for (unsigned i = 0; i < thread_count; i++) {
        sources.emplace_back(record_bytes, i);
        produced[i].samples_ns.reserve(per_thread / sample_every + 1);
    }
    std::atomic<unsigned> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < thread_count; i++) {
        threads.emplace_back([&, i] {
            logger.begin();
            ready++;
            while (!go) {
                usleep(100);
            }
            produce(logger, sources[i], per_thread, think_ns, produced[i]);
        });
    }
    while (ready != thread_count) {
        usleep(100);
    }
    Measured out;
    const Cpu before = cpu();
    const int64_t start_ns = now_ns(CLOCK_MONOTONIC);
    go = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
    out.accepted_s = static_cast<double>(now_ns(CLOCK_MONOTONIC) - start_ns) * 1e-9;
    logger.finish();
    out.in_file_s = static_cast<double>(now_ns(CLOCK_MONOTONIC) - start_ns) * 1e-9;
    const Cpu after = cpu();
    for (const Produced& one : produced) {
        out.producers_cpu_s += static_cast<double>(one.cpu_ns) * 1e-9;
        out.samples_ns.insert(out.samples_ns.end(), one.samples_ns.begin(), one.samples_ns.end());
    }
    out.writer_cpu_s = std::max(after.all_s - before.all_s - out.producers_cpu_s, 0.0);
    out.kernel_cpu_s = after.kernel_s - before.kernel_s;
    std::sort(out.samples_ns.begin(), out.samples_ns.end());
    return out;
}

} // namespace

int main(int argc, char** argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        return list();
    }
    if (argc < 6 || argc > 7) {
        fail("usage: loggers VARIANT RECORD_BYTES RECORDS THREADS DIRECTORY [THINK_NS]");
    }
    const std::string name = argv[1];
    const size_t record_bytes = std::stoul(argv[2]);
    const uint64_t records = std::stoull(argv[3]);
    const Setup setup = {argv[5], static_cast<unsigned>(std::stoul(argv[4]))};
    const int64_t think_ns = argc > 6 ? std::stoll(argv[6]) : 0;
    // As a server has it: localtime() then looks at /etc/localtime each time.
    unsetenv("TZ");

    const auto* variant = std::find_if(std::begin(variants), std::end(variants),
                                       [&](const auto& v) { return name == v.name; });
    if (variant == std::end(variants)) {
        fail("no such variant: " + name);
    }
    const std::unique_ptr<Logger> logger = variant->make(name, setup);
    if (logger == nullptr) {
        fail(name + " is not built in");
    }

    const uint64_t per_thread = records / setup.threads;
    const Measured measured = measure(*logger, setup.threads, record_bytes, per_thread, think_ns);
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);

    const int64_t clock_ns = clock_cost_ns();
    const auto at = [&](size_t per_mille) {
        const std::vector<uint32_t>& samples = measured.samples_ns;
        const int64_t ns = samples[(samples.size() - 1) * per_mille / 1000];
        return std::max<int64_t>(ns - clock_ns, 0);
    };
    const Files files = count_files(setup.directory);
    const uint64_t expected = per_thread * setup.threads;
    if (files.records != expected) {
        fail(name + ": " + std::to_string(files.records) + " records are in the file, not " +
             std::to_string(expected));
    }
    printf("{\"variant\":\"%s\",\"record_bytes\":%zu,\"records\":%" PRIu64 ",\"threads\":%u,"
           "\"accepted_s\":%.4f,\"in_file_s\":%.4f,\"call_ns_p50\":%" PRId64
           ",\"call_ns_p99\":%" PRId64 ",\"call_ns_p999\":%" PRId64
           ",\"producers_cpu_s\":%.4f,\"writer_cpu_s\":%.4f,\"kernel_cpu_s\":%.4f,\"file_bytes\":"
           "%" PRIu64 ",\"resident_kib\":%ld}\n",
           name.c_str(), record_bytes, expected, setup.threads, measured.accepted_s,
           measured.in_file_s, at(500), at(990), at(999), measured.producers_cpu_s,
           measured.writer_cpu_s, measured.kernel_cpu_s, files.bytes, usage.ru_maxrss);
    return 0;
}
