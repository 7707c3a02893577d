// The recorder as the plugin has it: real probe, arena of the default size, real writer thread.
//
//   tacho       one record and one call for each line, as the others have it
//   tacho-pair  start with the text, end with the outcome: two records, two calls and one line,
//               as statements of a server are recorded
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "logger.h"
#include "tacho_embed.h"

namespace {

thread_local tacho_thread this_thread = {};

tacho_bytes bytes_of(std::string_view text) {
    return {text.data(), text.size()};
}

// The others read the clock for each record, too. A server has done so already.
int64_t now_us() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

class Tacho : public Logger {
public:
    Tacho(const Setup& setup, bool pair) : pair_(pair) {
        tacho_embed_config config = {};
        config.log_directory = setup.directory.c_str();
        config.arena_directory = "/dev/shm";
        config.server = "bench/loggers";
        config.arena_bytes = 64 << 20;
        char error[512];
        recorder_ = tacho_embed_start(&config, error, sizeof(error));
        if (recorder_ == nullptr) {
            fprintf(stderr, "%s\n", error);
            exit(1);
        }
        tacho_embed_set_name(recorder_, 0, "select");
        tacho_embed_set(recorder_, TACHO_SETTING_LOGGING, 1);
        probe_ = tacho_embed_probe(recorder_);
    }

    void log(const Record& record) override {
        tacho_event event = {};
        event.kind = pair_ ? TACHO_KIND_START : TACHO_KIND_POINT;
        event.conn = record.conn;
        event.query_id = record.number;
        event.text_id = reinterpret_cast<uint64_t>(record.sql.data());
        event.ts_us = now_us();
        event.sql_command = -1;
        event.strings[TACHO_STRING_USER] = bytes_of(record.user);
        event.strings[TACHO_STRING_IP] = bytes_of(record.ip);
        event.strings[TACHO_STRING_DB] = bytes_of(record.db);
        event.strings[TACHO_STRING_COMMAND] = {"Query", 5};
        event.strings[TACHO_STRING_CHARSET] = {"utf8mb4", 7};
        event.text = bytes_of(record.sql);
        event.present = TACHO_PRESENT_TEXT;
        tacho_session* session = tacho_probe_session(probe_, event.conn, event.ts_us);
        if (!pair_) {
            set_outcome(&event);
            tacho_probe_emit(probe_, &this_thread, session, &event);
            return;
        }
        tacho_probe_emit(probe_, &this_thread, session, &event);

        tacho_event end = {};
        end.kind = TACHO_KIND_END;
        end.conn = event.conn;
        end.query_id = event.query_id;
        end.text_id = event.text_id;
        end.ts_us = now_us();
        end.shown_bytes = static_cast<uint32_t>(record.sql.size());
        set_outcome(&end);
        session = tacho_probe_session(probe_, end.conn, end.ts_us);
        if (!tacho_probe_end_known(session, end.text_id, end.query_id, end.shown_bytes)) {
            fprintf(stderr, "the start of a statement was forgotten\n");
            abort();
        }
        tacho_probe_emit(probe_, &this_thread, session, &end);
    }

    void end() override {
        tacho_probe_forget(probe_, &this_thread, nullptr);
    }

    void finish() override {
        tacho_embed_stop(recorder_, 600000);
    }

private:
    static void set_outcome(tacho_event* event) {
        event->sql_command = 0;
        event->present |= TACHO_PRESENT_SQL_COMMAND;
    }

    const bool pair_;
    tacho_embed* recorder_;
    const tacho_probe* probe_;
};

} // namespace

std::unique_ptr<Logger> make_tacho(const std::string& variant, const Setup& setup) {
    return std::make_unique<Tacho>(setup, variant == "tacho-pair");
}
