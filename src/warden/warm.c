#include "warden/warm.h"

#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "cage/init.h"
#include "warden/limits.h"
#include "warden/warden.h"

static void warm_fill(struct loop_timer *t);

void warm_init(struct warden *w, const char *text)
{
	uint64_t n = WARM_SLOTS;
	if (*text && !str_to_u64(str_of(text), WARM_SLOTS_MAX, &n))
		log_event(LOG_WARN, "ATOLL_WARM_WORKERS must be a number from 0 to 8", "value=%s used=%u", LOG_Q(text),
			WARM_SLOTS);
	w->warm.max = (uint32_t)n;
}

static bool is_warm(const struct warden_slot *c)
{
	return c->warm && !c->unwanted && c->stage == SLOT_READY;
}

static uint32_t warm_count(struct warden *w)
{
	uint32_t n = 0;
	list_each(it, &w->slots) n += is_warm(list_entry(it, struct warden_slot, node));
	return n;
}

static uint32_t more_credit(uint32_t have)
{
	return have + WARM_CREDIT < WARM_CREDIT_MAX ? have + WARM_CREDIT : WARM_CREDIT_MAX;
}

bool warm_note(struct warden_slot *c, bool typescript)
{
	struct warm *m = &c->w->warm;
	bool first = !c->told_js && !c->told_ts, *told = typescript ? &c->told_ts : &c->told_js;
	if (*told)
		return false;
	*told = true;
	if (!m->max || !c->box || c->box->image.layered)
		return true;
	if (first)
		m->credit = more_credit(m->credit);
	if (typescript)
		m->credit_ts = more_credit(m->credit_ts);
	m->noted_ms = clock_ms();
	warm_rest(c->w);
	return true;
}

void warm_rest(struct warden *w)
{
	struct loop_timer *t = &w->warm.timer;
	bool due_soon = t->pos && t->due <= loop_now(w->loop) + WARM_REST;
	if (w->warm.noted_ms && !due_soon)
		loop_timer_set(w->loop, t, WARM_REST, warm_fill);
}

struct warden_slot *warm_slot(const struct box *b)
{
	const struct box_limits *l = &b->info.limits;
	if (b->volumes_n || l->mem_bytes < WARM_BOX_MEM_MIN || l->pids < WARM_BOX_PIDS)
		return NULL;
	list_each(it, &b->w->slots)
	{
		struct warden_slot *c = list_entry(it, struct warden_slot, node);
		if (is_warm(c) && box_may_adopt(b, c))
			return c;
	}
	return NULL;
}

/* on_exit_ready of slots.c sweeps it, and the pool gets another slot. */
static void end_warm(struct warden *w, bool all)
{
	list_each(it, &w->slots)
	{
		struct warden_slot *c = list_entry(it, struct warden_slot, node);
		if (!is_warm(c) || (!all && lately_wants(w, c)))
			continue;
		c->unwanted = true;
		warden_slot_kill(c);
	}
}

void warm_end_unwanted(struct warden *w)
{
	end_warm(w, false);
}

/* A slot of the image of Atoll's own that was used last. */
static struct warden_slot *next_slot(struct warden *w)
{
	for (size_t i = 0; i < w->lately.n; i++) {
		const struct image *image = &w->lately.images[i].image;
		struct warden_slot *c = image->layered ? NULL : lately_slot(w, image);
		if (c && c->slot.overlay >= 0 && image_same(&c->slot.image, image))
			return c;
	}
	return NULL;
}

static bool memory_to_spare(void)
{
	auto_buf struct buf text = {0};
	uint64_t total = 0, available = 0;
	if (fd_read_file(AT_FDCWD, "/proc/meminfo", 16384, &text) < 0)
		return false;
	const char *s = buf_cstr(&text), *t = strstr(s, "MemTotal:"), *a = strstr(s, "MemAvailable:");
	if (t && a) {
		total = strtoull(t + strlen("MemTotal:"), NULL, 10);
		available = strtoull(a + strlen("MemAvailable:"), NULL, 10);
	}
	return total && available >= total / 100 * WARM_MEM_FREE;
}

static void warm_one(struct warden_slot *c)
{
	struct warm *m = &c->w->warm;
	bool typescript = m->credit_ts > 0;
	struct err e;
	if (init_send_warm(c->slot.control, c->slot.overlay, typescript, &e) < 0) {
		log_limited(LOG_WARN, "no worker ahead", "slot=%u error=%s", c->slot.number, LOG_Q(e.msg));
		return;
	}
	c->warm = true;
	m->credit--;
	m->credit_ts -= typescript;
	log_event(LOG_DEBUG, "worker ahead", "slot=%u typescript=%d", c->slot.number, typescript);
}

static void warm_fill(struct loop_timer *t)
{
	struct warden *w = container_of(t, struct warden, warm.timer);
	struct warm *m = &w->warm;
	uint64_t idle = clock_ms() - m->noted_ms;
	if (idle >= WARM_KEEP) {
		m->credit = m->credit_ts = 0;
		m->noted_ms = 0;
		return end_warm(w, true);
	}
	if (!m->credit || warm_count(w) >= m->max) {
		loop_timer_set(w->loop, &m->timer, WARM_KEEP - idle, warm_fill);
		return;
	}
	/* The pool comes first. */
	bool quiet = !w->busy && !w->making && list_empty(&w->waiting) && w->ready >= WARDEN_POOL / 2;
	struct warden_slot *c = quiet && memory_to_spare() ? next_slot(w) : NULL;
	if (c)
		warm_one(c);
	loop_timer_set(w->loop, &m->timer, c ? WARM_REST : WARM_RETRY, warm_fill);
}
