// The session writes, under a lock that all sessions share, as audit plugins do.
//
//   localtime    time stamp by localtime(), whose result all threads share: under the lock;
//                one write(2) for each record
//   localtime_r  time stamp by localtime_r(), before the lock; one write(2) for each record
//   buffered     the same, but write(2) for each 64 KiB
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <mutex>
#include <unistd.h>

#include "logger.h"

namespace {

constexpr size_t buffer_bytes = 64 << 10;
constexpr size_t line_bytes_max = 1024;

class Direct : public Logger {
public:
    Direct(const std::string& variant, const Setup& setup)
        : shared_time_(variant == "localtime"), buffered_(variant == "buffered") {
        const std::string path = setup.directory + "/log";
        fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd_ < 0) {
            fail("open");
        }
    }

    void log(const Record& record) override {
        const time_t now = time(nullptr);
        char line[line_bytes_max];
        if (shared_time_) {
            const std::lock_guard<std::mutex> guard(lock_);
            write_all(line, put_together(*localtime(&now), record, line));
            return;
        }
        tm broken_down;
        localtime_r(&now, &broken_down);
        const size_t bytes = put_together(broken_down, record, line);
        const std::lock_guard<std::mutex> guard(lock_);
        if (!buffered_) {
            write_all(line, bytes);
            return;
        }
        if (used_ + bytes > buffer_bytes) {
            flush();
        }
        memcpy(buffer_ + used_, line, bytes);
        used_ += bytes;
    }

    void finish() override {
        flush();
        if (close(fd_) != 0) {
            fail("close");
        }
    }

private:
    static size_t put_together(const tm& t, const Record& record, char* line) {
        const int stamp =
            snprintf(line, line_bytes_max, "%04d%02d%02d %02d:%02d:%02d,", t.tm_year + 1900,
                     t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec);
        memcpy(line + stamp, record.line.data(), record.line.size());
        line[stamp + record.line.size()] = '\n';
        return stamp + record.line.size() + 1;
    }

    void flush() {
        write_all(buffer_, used_);
        used_ = 0;
    }

    void write_all(const char* data, size_t bytes) {
        while (bytes > 0) {
            const ssize_t n = write(fd_, data, bytes);
            if (n < 0 && errno != EINTR) {
                fail("write");
            }
            data += n < 0 ? 0 : n;
            bytes -= n < 0 ? 0 : n;
        }
    }

    [[noreturn]] static void fail(const char* what) {
        perror(what);
        exit(1);
    }

    const bool shared_time_;
    const bool buffered_;
    std::mutex lock_;
    int fd_;
    size_t used_ = 0;
    char buffer_[buffer_bytes];
};

} // namespace

std::unique_ptr<Logger> make_direct(const std::string& variant, const Setup& setup) {
    return std::make_unique<Direct>(variant, setup);
}
