#include <errno.h>

#include "proto/errc.h"
#include "test.h"

TEST(every_code_has_a_name_and_an_error_status)
{
	for (int i = 1; i < ERRC_MAX; i++) {
		const struct errc_info *info = errc_info(i);
		CHECK(info->code && *info->code && info->suggestion);
		CHECK(info->status >= 400 && info->status < 600);
		for (int k = 1; k < i; k++)
			CHECK(strcmp(errc_info(k)->code, info->code) != 0);
	}
}

TEST(numbers_that_are_no_code_read_as_unknown)
{
	CHECK_CSTR(errc_info(-1)->code, "UNKNOWN_ERROR");
	CHECK_CSTR(errc_info(ERRC_MAX)->code, "UNKNOWN_ERROR");
	CHECK_CSTR(errc_info(ERRC_OK)->code, "OK");
}

TEST(mistakes_in_json_have_the_codes_of_the_api)
{
	CHECK_CSTR(errc_info(ERR_BAD_JSON)->code, "INVALID_JSON");
	CHECK_CSTR(errc_info(ERR_BAD_FIELD)->code, "VALIDATION_FAILED");
}

TEST(an_errno_of_a_file_has_a_code)
{
	CHECK_INT(errc_from_file_errno(ENOENT), ERRC_FILE_NOT_FOUND);
	CHECK_INT(errc_from_file_errno(EDQUOT), ERRC_NO_SPACE);
	CHECK_INT(errc_from_file_errno(EIO), ERRC_FILESYSTEM_ERROR);
}

TEST_MAIN()
