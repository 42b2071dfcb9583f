#include "gate/spare.h"

static size_t taken, all;

void spare_init(size_t most)
{
	all = most;
}

bool spare_take(size_t n)
{
	if (taken + n > all)
		return false;
	taken += n;
	return true;
}

void spare_give(size_t n)
{
	taken -= n;
}
