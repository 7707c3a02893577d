// Quill: a queue for each thread, one thread that writes.
//
//   quill          its defaults: a queue grows up to 2 GiB, so that threads hardly wait
//   quill-bounded  as much memory as tacho's arena: 64 MiB divided among the threads; a
//                  thread whose queue is full waits
#if __has_include(<quill/Backend.h>)

#include <quill/Backend.h>
#include <quill/Frontend.h>
#include <quill/LogMacros.h>
#include <quill/Logger.h>
#include <quill/sinks/FileSink.h>

#include "logger.h"

namespace {

template <size_t Bytes> struct Bounded : quill::FrontendOptions {
    static constexpr quill::QueueType queue_type = quill::QueueType::BoundedBlocking;
    static constexpr size_t initial_queue_capacity = Bytes;
};

// One process uses one kind of queue only, as Quill demands.
template <typename Options> class Quill : public Logger {
public:
    explicit Quill(const Setup& setup) {
        quill::Backend::start();
        auto sink = quill::FrontendImpl<Options>::template create_or_get_sink<quill::FileSink>(
            setup.directory + "/log");
        logger_ = quill::FrontendImpl<Options>::create_or_get_logger(
            "log", std::move(sink),
            quill::PatternFormatterOptions{"%(time),%(message)", "%Y%m%d %H:%M:%S"});
    }

    void begin() override {
        quill::FrontendImpl<Options>::preallocate();
    }

    void log(const Record& record) override {
        LOG_INFO(logger_, "{}", record.line);
    }

    // The thread writes the contents of the queues before it ends.
    void finish() override {
        logger_->flush_log();
        quill::Backend::stop();
    }

private:
    quill::LoggerImpl<Options>* logger_;
};

} // namespace

std::unique_ptr<Logger> make_quill(const std::string& variant, const Setup& setup) {
    constexpr size_t MiB = 1 << 20;
    if (variant == "quill") {
        return std::make_unique<Quill<quill::FrontendOptions>>(setup);
    } else if (setup.threads == 1) {
        return std::make_unique<Quill<Bounded<64 * MiB>>>(setup);
    } else if (setup.threads <= 4) {
        return std::make_unique<Quill<Bounded<16 * MiB>>>(setup);
    } else if (setup.threads <= 16) {
        return std::make_unique<Quill<Bounded<4 * MiB>>>(setup);
    }
    return std::make_unique<Quill<Bounded<MiB>>>(setup);
}

#else

#include "logger.h"

std::unique_ptr<Logger> make_quill(const std::string&, const Setup&) {
    return nullptr;
}

#endif
