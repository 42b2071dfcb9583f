/*
 * recover.h - finds the boxes of the warden before us, from its records (record.h).
 */
#pragma once

struct warden;

/* Before the first request: adopts living boxes, reports dead ones, undoes half-made ones, sweeps the rest. */
void recover(struct warden *w);
