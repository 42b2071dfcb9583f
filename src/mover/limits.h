/*
 * limits.h - the limits of atoll-mover: quantities that an archive can drive, by name.
 */
#pragma once

#include "base/limits.h"

#define MOVER_NAME_MAX	   4095		 /* of a path */
#define MOVER_PART_MAX	   255		 /* of one component */
#define MOVER_DEPTH_MAX	   256		 /* components of a path */
#define MOVER_ENTRIES_MAX  2000000u	 /* of one archive */
#define MOVER_BYTES_MAX	   (32ull << 30) /* of one archive, uncompressed, unless told otherwise */
#define MOVER_RATIO_MAX	   1100u	 /* uncompressed to compressed: deflate's own limit is 1032 */
#define MOVER_RATIO_FROM   (64ull * MIB) /* … from this size on; small archives of zeros are fine */
#define MOVER_FILES_MAX	   16u		 /* files and secrets of one RUN */
#define MOVER_XATTR_MAX	   65536
#define MOVER_DB_MAX	   (64u * MIB) /* of a database of packages */
#define MOVER_PACKAGES_MAX 50000u
