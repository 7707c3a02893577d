// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// SHOW STATUS of the recorder: names, and the sources of their values.
#ifndef TACHO_COMMON_FIGURES_SHOWN_H
#define TACHO_COMMON_FIGURES_SHOWN_H

#include "tacho_embed.h"

namespace tacho {

struct ShownNumber {
    const char* name;
    uint64_t tacho_embed_status::*member;
};

struct ShownText {
    const char* name;
    int32_t which; // enum tacho_text
};

constexpr ShownNumber kShownNumbers[] = {
    {"records_written", &tacho_embed_status::records_written},
    {"bytes_written", &tacho_embed_status::bytes_written},
    {"records_filtered", &tacho_embed_status::records_filtered},
    {"records_lost", &tacho_embed_status::records_lost},
    {"records_lost_timeout", &tacho_embed_status::records_lost_timeout},
    {"records_lost_dropped", &tacho_embed_status::records_lost_dropped},
    {"records_lost_corrupt", &tacho_embed_status::records_lost_corrupt},
    {"records_lost_killed", &tacho_embed_status::records_lost_killed},
    {"blocked_count", &tacho_embed_status::blocked_count},
    {"blocked_time_us", &tacho_embed_status::blocked_time_us},
    {"arena_bytes_used", &tacho_embed_status::arena_bytes_used},
    {"write_errors", &tacho_embed_status::write_errors},
    {"sync_count", &tacho_embed_status::sync_count},
    {"sync_time_us", &tacho_embed_status::sync_time_us},
    {"sync_given_up", &tacho_embed_status::sync_given_up},
    {"files_removed", &tacho_embed_status::files_removed},
    {"files_compressed", &tacho_embed_status::files_compressed},
    {"files_encrypted", &tacho_embed_status::files_encrypted},
    {"files", &tacho_embed_status::files},
    {"files_bytes", &tacho_embed_status::files_bytes},
    {"files_days", &tacho_embed_status::files_days},
    {"files_to_pack", &tacho_embed_status::files_to_pack},
    {"format_behind_bytes", &tacho_embed_status::format_behind_bytes},
    {"disk_free_bytes", &tacho_embed_status::disk_free_bytes},
    {"sessions", &tacho_embed_status::sessions},
    {"sessions_max", &tacho_embed_status::sessions_max},
    {"filter_rules", &tacho_embed_status::filter_rules},
    {"statements_blocked", &tacho_embed_status::statements_blocked},
    {"statements_rewritten", &tacho_embed_status::statements_rewritten},
    {"rewrite_rules", &tacho_embed_status::rewrite_rules},
    {"rewrites_failed", &tacho_embed_status::rewrites_failed},
};
constexpr size_t kShownNumberCount = sizeof(kShownNumbers) / sizeof(kShownNumbers[0]);

constexpr ShownText kShownTexts[] = {
    {"last_error", TACHO_TEXT_LAST_ERROR},
    {"filter_error", TACHO_TEXT_FILTER_ERROR},
    {"encryption_error", TACHO_TEXT_ENCRYPTION_ERROR},
    {"rewrite_error", TACHO_TEXT_REWRITE_ERROR},
    {"current_file", TACHO_TEXT_CURRENT_FILE},
    {"oldest_file", TACHO_TEXT_OLDEST_FILE},
    {"oldest_time", TACHO_TEXT_OLDEST_TIME},
    {"checkpoint_time", TACHO_TEXT_CHECKPOINT_TIME},
    {"rotate_due_time", TACHO_TEXT_ROTATE_DUE_TIME},
    {"writer", TACHO_TEXT_WRITER},
    {"arena_file", TACHO_TEXT_ARENA},
};
constexpr size_t kShownTextCount = sizeof(kShownTexts) / sizeof(kShownTexts[0]);

} // namespace tacho

#endif
