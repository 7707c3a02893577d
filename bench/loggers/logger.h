// The interface between the harness (main.cc) and a way of writing records; each has one source
// file.
#ifndef TACHO_BENCH_LOGGER_H
#define TACHO_BENCH_LOGGER_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

// One record. The parts point into the line: loggers that take fields and loggers that take a line
// get the same bytes, and only tacho has to build a line.
struct Record {
    std::string_view line; // without time stamp and newline
    std::string_view user;
    std::string_view ip;
    std::string_view db;
    std::string_view sql;
    uint64_t conn; // connection, counted from 1: one for each thread
    uint64_t number;
};

// The number of threads and the directory of the log are given to the constructor.
class Logger {
public:
    virtual ~Logger() = default;
    // In a producer, before its first and after its last record.
    virtual void begin() {}
    virtual void end() {}
    // In a producer: takes the record. Returns when the caller may continue.
    virtual void log(const Record& record) = 0;
    // When all producers have ended: returns when the last line is in the file.
    virtual void finish() = 0;
};

struct Setup {
    std::string directory; // exists, and is empty
    unsigned threads;
};

// Both are only built in where they are installed.
#if __has_include(<spdlog/async.h>)
constexpr bool has_spdlog = true;
#else
constexpr bool has_spdlog = false;
#endif
#if __has_include(<quill/Backend.h>)
constexpr bool has_quill = true;
#else
constexpr bool has_quill = false;
#endif

// Null if it is not built in. `variant` is one of the variants of the file.
std::unique_ptr<Logger> make_tacho(const std::string& variant, const Setup& setup);
std::unique_ptr<Logger> make_direct(const std::string& variant, const Setup& setup);
std::unique_ptr<Logger> make_spdlog(const std::string& variant, const Setup& setup);
std::unique_ptr<Logger> make_quill(const std::string& variant, const Setup& setup);

#endif
