/*
 * limits.h - the limits of the S3 client: quantities that a server can drive, by name. Times are milliseconds.
 */
#pragma once

#include "base/limits.h"

#define S3_TRIES       6     /* of one request without progress */
#define S3_PAUSE       200   /* before the second try, at most; doubled for each further one … */
#define S3_PAUSE_MAX   10000 /* … up to this */
#define S3_CONNECT_MS  10000L
#define S3_STALL_S     60L /* a transfer that moves nothing so long is cut */
#define S3_ANSWER_MAX  (4u * MIB)
#define S3_PART	       (16u * MIB) /* of a multipart put */
#define S3_PARTS_MAX   10000
#define S3_PAGES_MAX   10000 /* of a list, 1000 names each */
#define S3_NAME_MAX    512
#define S3_SETTING_MAX 256
