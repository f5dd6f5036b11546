/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What chance does to a test on a real machine, as a seeded variation of a run: a program starts
 * some time later, packets come some microseconds later, and what the kernel does costs time.
 *
 * The file "vary" in the run's folder says what is wanted; without it nothing of this is there, and
 * a run is the one that it always was. Its first line is "draw N", from which all draws come; each
 * further one is a kind, how much at most (nanoseconds), and which draws count: from one to before
 * another. The others are drawn and have no effect, so that a smaller part of a variation is the
 * same part.
 *
 *   start   every program that is executed begins up to so much later; a script and its interpreter
 *   are one program jitter  every packet that netem delays comes up to so much later, behind the
 *   one before; a draw is a configuration of netem slow    a program's call of the kernel, its page
 *   fault and a packet that is received cost up to so much; one in a thousand a thousand times as
 *           much, which is another load on the same processor
 *
 * "results/varied" gets what happened: a line for each draw that counts where they are few, and at
 * the end how many there were of each kind.
 */
/* Before it (5.7) there is no list of what is to happen when: nothing varies, and no
 * "results/varied" says so. */
#if __has_include(<linux/time-internal.h>)
#include <linux/binfmts.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/time-internal.h>
#include <linux/version.h>
#include <net/netlink.h>
#include <net/sch_generic.h>
#include <uapi/linux/pkt_sched.h>

/* record.c: calls of the host. */
extern int pp_host_vary(const char *lines[4]);
extern void pp_host_varied(const char *text, unsigned long bytes);
/* host.c: who is told of a program's stops. */
extern void (*pp_host_on_stop)(int fault, long call);

/* The kernel's own, which the link makes visible (python/polypath/linux/_link.py). Null where a
 * configuration lacks them. */
extern unsigned long long time_travel_time;
extern struct list_head time_travel_events;
extern struct Qdisc_ops netem_qdisc_ops __weak;

enum { PP_START, PP_JITTER, PP_SLOW, PP_KINDS };
/* In place of a call's number. */
enum { PP_FAULT = -1, PP_RECEIVED = -2 };

#define PP_FEW 1000	/* draws that count, of which each gets a line */
#define PP_TICK_NS 64	/* a tick of tc_netem_qopt: PSCHED_TICKS2NS(1) */
#define PP_RARE 1000	/* one in so many costs so many times as much */

static const char *const pp_names[PP_KINDS] = { "start", "jitter", "slow" };

static struct pp_kind {
	u64 most;		/* ns; 0: this kind is not wanted */
	u64 first, last;	/* draws that count: first <= number < last */
	u64 number, state;
} pp_kinds[PP_KINDS];

/* splitmix64 */
static u64 pp_draw(struct pp_kind *kind)
{
	u64 z = kind->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* Whether this draw counts; `drawn` gets 64 bits in any case. */
static bool pp_next(struct pp_kind *kind, u64 *drawn)
{
	u64 number = kind->number++;

	*drawn = pp_draw(kind);
	return number >= kind->first && number < kind->last;
}

/* Uniform below `most`, of the upper bits. */
static u64 pp_below(u64 most, u64 drawn)
{
	return mul_u64_u64_shr(drawn, most, 64);
}

static void pp_tell(const struct pp_kind *kind, u64 ns, const char *who, long call)
{
	char text[128];
	int length;

	if (kind->last - kind->first > PP_FEW)
		return;
	length = scnprintf(text, sizeof(text), "%s %llu at %llu ns %llu %s %ld\n", pp_names[kind - pp_kinds], kind->number - 1, time_travel_time, ns, who,
			   call);
	pp_host_varied(text, length);
}

/* start */

/* The program that has begun and made no call yet, and how late it was. */
static struct {
	const struct task_struct *task;
	u64 number, ns;
	bool counts;
} pp_begun;

static int pp_begin(struct linux_binprm *program)
{
	struct pp_kind *kind = &pp_kinds[PP_START];
	u64 drawn, ns, number;
	bool counts;

	/* A script's interpreter is sought next. */
	if (pp_begun.task == current)
		return -ENOEXEC;
	counts = pp_next(kind, &drawn);
	number = kind->number;
	ns = counts ? pp_below(kind->most, drawn) : 0;
	if (ns) {
		ktime_t until = ns_to_ktime(ns);

		/* Others go on meanwhile, as beside a program that is being loaded. */
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&until, HRTIMER_MODE_REL);
	}
	pp_begun.task = current;
	pp_begun.number = number;
	pp_begun.ns = ns;
	pp_begun.counts = counts;
	/* Not this format: the next one loads it. */
	return -ENOEXEC;
}

static struct linux_binfmt pp_format = { .load_binary = pp_begin };

/* jitter */

static int (*pp_init)(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack);
static int (*pp_change)(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack);

static int pp_put(struct nlattr *opt, int type, u64 value)
{
	struct nlattr *at = (void *)opt + NLA_ALIGN(opt->nla_len);

	at->nla_type = type;
	at->nla_len = nla_attr_size(sizeof(value));
	memcpy(nla_data(at), &value, sizeof(value));
	opt->nla_len = NLA_ALIGN(opt->nla_len) + nla_total_size(sizeof(value));
	return 0;
}

/* The configuration with a delay that is uniform between its own and `most` more. Null where it
 * has a jitter of its own. */
static struct nlattr *pp_with_jitter(const struct nlattr *opt, u64 most, u64 seed)
{
	const struct tc_netem_qopt *qopt = nla_data(opt);
	int head = NLA_ALIGN(sizeof(*qopt)), rest = nla_len(opt) - head;
	struct nlattr *attributes = (void *)qopt + head, *found, *made;
	u64 latency = (u64)qopt->latency * PP_TICK_NS, half = most / 2;

	if (nla_len(opt) < (int)sizeof(*qopt) || qopt->jitter)
		return NULL;
	found = rest > 0 ? nla_find(attributes, rest, TCA_NETEM_JITTER64) : NULL;
	if (found && nla_get_s64(found))
		return NULL;
	found = rest > 0 ? nla_find(attributes, rest, TCA_NETEM_LATENCY64) : NULL;
	if (found)
		latency = nla_get_s64(found);
	made = kzalloc(NLA_ALIGN(opt->nla_len) + head + 4 * nla_total_size(sizeof(u64)), GFP_KERNEL);
	if (!made)
		return NULL;
	memcpy(made, opt, opt->nla_len);
	/* Of two of a kind the later one counts. */
	pp_put(made, TCA_NETEM_LATENCY64, latency + half);
	pp_put(made, TCA_NETEM_JITTER64, half);
	/* At a rate netem keeps packets in order. */
	if (rest <= 0 || (!nla_find(attributes, rest, TCA_NETEM_RATE) && !nla_find(attributes, rest, TCA_NETEM_RATE64)))
		pp_put(made, TCA_NETEM_RATE64, 1000000000000ULL);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	pp_put(made, TCA_NETEM_PRNG_SEED, seed);
#endif
	return made;
}

static int pp_configure(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack,
			int (*own)(struct Qdisc *, struct nlattr *, struct netlink_ext_ack *))
{
	struct pp_kind *kind = &pp_kinds[PP_JITTER];
	struct nlattr *made;
	u64 drawn;
	int result;

	if (!opt || !pp_next(kind, &drawn))
		return own(sch, opt, extack);
	made = pp_with_jitter(opt, kind->most, drawn);
	if (!made)
		return own(sch, opt, extack);
	pp_tell(kind, kind->most, qdisc_dev(sch)->name, 0);
	result = own(sch, made, extack);
	kfree(made);
	return result;
}

static int pp_netem_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	return pp_configure(sch, opt, extack, pp_init);
}

static int pp_netem_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	return pp_configure(sch, opt, extack, pp_change);
}

/* slow */

/* What packets have cost and the clock has not had room for. */
static u64 pp_owed;

static u64 pp_cost(struct pp_kind *kind, u64 drawn)
{
	/* The lower bits say whether, the upper ones how much. */
	return pp_below((u32)drawn % PP_RARE ? kind->most : kind->most * PP_RARE, drawn);
}

/*
 * In a soft interrupt no time can be let go by, since the kernel may be waiting for a moment that
 * comes sooner. Up to that moment the clock is set forward; the rest is owed.
 */
static int pp_received(struct sk_buff *skb, struct net_device *dev, struct packet_type *pt, struct net_device *orig)
{
	struct pp_kind *kind = &pp_kinds[PP_SLOW];
	u64 drawn, ns;

	if (skb->pkt_type != PACKET_OUTGOING && pp_next(kind, &drawn)) {
		unsigned long flags;
		struct time_travel_event *first;
		u64 room;

		ns = pp_cost(kind, drawn);
		pp_tell(kind, ns, dev->name, PP_RECEIVED);
		pp_owed += ns;
		local_irq_save(flags);
		first = list_first_entry_or_null(&time_travel_events, struct time_travel_event, list);
		room = first && first->time > time_travel_time ? first->time - time_travel_time : 0;
		ns = min(room, pp_owed);
		time_travel_time += ns;
		pp_owed -= ns;
		local_irq_restore(flags);
	}
	consume_skb(skb);
	return 0;
}

static struct packet_type pp_received_type = { .type = cpu_to_be16(ETH_P_ALL), .func = pp_received };

/* A program has stopped for a page fault, or for a call. */
static void pp_on_stop(int fault, long call)
{
	struct pp_kind *start = &pp_kinds[PP_START], *slow = &pp_kinds[PP_SLOW];
	u64 drawn, ns;

	if (pp_begun.task == current) {
		if (pp_begun.counts) {
			u64 number = start->number;

			start->number = pp_begun.number;
			pp_tell(start, pp_begun.ns, current->comm, current->pid);
			start->number = number;
		}
		pp_begun.task = NULL;
	}
	if (!slow->most || !pp_next(slow, &drawn))
		return;
	ns = pp_cost(slow, drawn);
	pp_tell(slow, ns, current->comm, fault ? PP_FAULT : call);
	ns += pp_owed;
	pp_owed = 0;
	time_travel_ndelay(ns);
}

/* At the end: how many draws there were. */
static int pp_end(struct notifier_block *block, unsigned long action, void *data)
{
	char text[128];
	int i;

	for (i = 0; i < PP_KINDS; i++)
		pp_host_varied(text, scnprintf(text, sizeof(text), "%s draws %llu\n", pp_names[i], pp_kinds[i].number));
	return NOTIFY_DONE;
}

static struct notifier_block pp_end_block = { .notifier_call = pp_end };

static int __init pp_vary(void)
{
	const char *lines[4];
	u64 seed = 0;
	int i, k;

	if (!pp_host_vary(lines))
		return 0;
	for (i = 0; i < 4; i++) {
		char name[16];
		u64 most, first, last;

		if (sscanf(lines[i], "draw %llu", &seed) == 1 || sscanf(lines[i], "%15s %llu %llu %llu", name, &most, &first, &last) != 4)
			continue;
		for (k = 0; k < PP_KINDS; k++)
			if (!strcmp(name, pp_names[k])) {
				pp_kinds[k].most = most;
				pp_kinds[k].first = first;
				pp_kinds[k].last = last;
			}
	}
	for (k = 0; k < PP_KINDS; k++)
		pp_kinds[k].state = (seed * PP_KINDS + k) * 2654435761ULL + 1;
	if (pp_kinds[PP_START].most) {
		insert_binfmt(&pp_format);
	}
	if (pp_kinds[PP_JITTER].most && &netem_qdisc_ops) {
		pp_init = netem_qdisc_ops.init;
		pp_change = netem_qdisc_ops.change;
		netem_qdisc_ops.init = pp_netem_init;
		netem_qdisc_ops.change = pp_netem_change;
	}
	if (pp_kinds[PP_SLOW].most)
		dev_add_pack(&pp_received_type);
	pp_host_on_stop = pp_on_stop;
	return register_reboot_notifier(&pp_end_block);
}
late_initcall(pp_vary);
#endif
