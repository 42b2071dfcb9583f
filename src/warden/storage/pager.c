#include "warden/storage/pager.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include "base/log.h"
#include "cage/caps.h"
#include "warden/control.h"
#include "warden/limits.h"
#include "warden/warden.h"

enum { PAGER_NICE = 5 };

struct page_out {
	struct list node;
	char id[BOX_ID_MAX + 1];
	struct warden_asker who;
};

static void pager_next(struct pager *p);

void pager_init(struct warden *w)
{
	w->pager = (struct pager){.w = w, .pidfd = -1};
	list_init(&w->pager.queue);
}

/* The child's life: one write. EAGAIN says that some pages had to stay, which is fine. */
_Noreturn static void push_out(int fd, const char *text)
{
	struct err e;
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_NAME, "atoll-pager");
	setpriority(PRIO_PROCESS, 0, PAGER_NICE);
	if (caps_bound(0, &e) < 0 || caps_limit(0, &e) < 0)
		_exit(1);
	_exit(write(fd, text, strlen(text)) < 0 && errno != EAGAIN);
}

/* Ends the job at the head. */
static void answer(struct pager *p, const struct err *e)
{
	struct page_out *job = list_entry(list_pop(&p->queue), struct page_out, node);
	struct warden *w = p->w;
	struct box *b = box_find(w, job->id);
	struct err gone;
	if (!e && (!b || !b->place)) {
		err_set(&gone, ERRC_SANDBOX_NOT_FOUND, "sandbox '%s' ended meanwhile", job->id);
		e = &gone;
	}
	if (!e)
		cgroup_usage(&w->cgroups, b->info.slot, &b->info);
	server_reply(w, &job->who, e, e ? NULL : b);
	p->queued--;
	free(job);
}

static void on_pager_exit(struct loop_io *io, uint32_t events)
{
	(void)events;
	struct pager *p = container_of(io, struct pager, io);
	siginfo_t how = {0};
	struct err e;
	waitid(P_PIDFD, (id_t)p->pidfd, &how, WEXITED | WNOHANG);
	loop_del(&p->io);
	fd_close(&p->pidfd);
	bool failed = how.si_code != CLD_EXITED || how.si_status != 0;
	if (failed)
		err_set(&e, ERRC_INTERNAL_ERROR, "the kernel did not take the sandbox's memory");
	answer(p, failed ? &e : NULL);
	pager_next(p);
}

static int start(struct pager *p, int fd, const char *text, struct err *e)
{
	struct clone_args a = {.flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&p->pidfd, .exit_signal = SIGCHLD};
	pid_t pid = sys_clone3(&a);
	if (pid == 0)
		push_out(fd, text);
	if (pid < 0)
		return err_os(e, ERRC_INTERNAL_ERROR, errno, "start the pager");
	int r = loop_add(p->w->loop, &p->io, p->pidfd, EPOLLIN, on_pager_exit);
	if (r < 0)
		fd_close(&p->pidfd);
	return r < 0 ? err_os(e, ERRC_INTERNAL_ERROR, -r, "watch the pager") : 0;
}

static bool host_has_swap(void)
{
	struct sysinfo si = {0};
	return sysinfo(&si) == 0 && si.totalswap;
}

static int begin(struct pager *p, const struct page_out *job, struct err *e)
{
	struct warden *w = p->w;
	struct box *b = box_find(w, job->id);
	char text[24];
	if (!b || b->stage != STAGE_FROZEN)
		return err_set(e, ERRC_INVALID_STATE, "sandbox '%s' is not frozen", job->id);
	if (!host_has_swap())
		return err_set(e, ERRC_HOST_UNSUPPORTED, "the host has no swap");
	b->may_swap = true;
	if (cgroup_allow_swap(&w->cgroups, b->info.slot, true, e) < 0)
		return -1;
	auto_fd int fd = cgroup_open_reclaim(&w->cgroups, b->info.slot, text, e);
	return fd < 0 ? -1 : start(p, fd, text, e);
}

static void pager_next(struct pager *p)
{
	struct err e;
	while (p->pidfd < 0 && !list_empty(&p->queue)) {
		if (begin(p, list_entry(p->queue.next, struct page_out, node), &e) < 0)
			answer(p, &e);
	}
}

void pager_page_out(struct warden *w, const struct warden_request *rq, struct warden_asker who)
{
	struct pager *p = &w->pager;
	struct err e;
	if (!control_living(w, rq, &who))
		return;
	if (p->queued >= WARDEN_PAGE_OUTS_MAX) {
		err_set(&e, ERRC_RESOURCE_BUSY, "%u sandboxes wait to be paged out already", WARDEN_PAGE_OUTS_MAX);
		server_reply(w, &who, &e, NULL);
		return;
	}
	struct page_out *job = xcalloc(1, sizeof *job);
	snprintf(job->id, sizeof job->id, "%s", rq->id);
	job->who = who;
	list_push(&p->queue, &job->node);
	p->queued++;
	pager_next(p);
}
