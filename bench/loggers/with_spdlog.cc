// spdlog's asynchronous logger with its defaults: one queue of 8,192 messages for all threads, one
// thread that writes; a thread that finds the queue full waits.
#if __has_include(<spdlog/async.h>)

#include <spdlog/async.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include "logger.h"

namespace {

class Spdlog : public Logger {
public:
    explicit Spdlog(const Setup& setup)
        : logger_(spdlog::basic_logger_mt<spdlog::async_factory>("log", setup.directory + "/log")) {
        logger_->set_pattern("%Y%m%d %H:%M:%S,%v");
    }

    void log(const Record& record) override {
        logger_->log(spdlog::level::info,
                     spdlog::string_view_t(record.line.data(), record.line.size()));
    }

    // The thread writes the contents of the queue before it ends; the file is closed with the
    // logger.
    void finish() override {
        logger_.reset();
        spdlog::shutdown();
    }

private:
    std::shared_ptr<spdlog::logger> logger_;
};

} // namespace

std::unique_ptr<Logger> make_spdlog(const std::string&, const Setup& setup) {
    return std::make_unique<Spdlog>(setup);
}

#else

#include "logger.h"

std::unique_ptr<Logger> make_spdlog(const std::string&, const Setup&) {
    return nullptr;
}

#endif
