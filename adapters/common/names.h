// Zone: cold
// SPDX-License-Identifier: GPL-2.0-only
//
// How each server names a variable and a status variable of the recorder.
#ifndef TACHO_COMMON_NAMES_H
#define TACHO_COMMON_NAMES_H

#include "server_compat.h"

#if defined(TACHO_SERVER_MYSQL) && !defined(TACHO_MYSQL_PLUGIN)
// A component's.
#define TACHO_VARIABLE(name) "tacho." name
#define TACHO_STATUS(name) "tacho." name
#else
#define TACHO_VARIABLE(name) "tacho_" name
#define TACHO_STATUS(name) "Tacho_" name
#endif

#endif
